"""What this machine has, and what a config needs of it."""
