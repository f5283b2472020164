"""What runs wrote, read once: folders, steps, and a summary row per run."""
