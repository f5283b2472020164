"""A run while it trains: its folder, checkpoints, rollouts, progress and scalars."""
