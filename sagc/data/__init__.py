"""Training prompts: where they come from, how they are prepared, and the order they are drawn in."""
