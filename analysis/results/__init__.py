"""Reads what runs wrote, once: folders, steps, and a summary row per run."""
