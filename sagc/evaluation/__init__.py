"""Downstream evaluation of a run's model through lm-eval; `evaluate` is in job.py."""
