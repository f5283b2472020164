"""Downstream evaluation of a run's model with lm-eval; start reading at `evaluate` in job.py."""
