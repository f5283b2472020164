"""Training prompts: where they come from, how they are prepared, and the order in which they are drawn."""
