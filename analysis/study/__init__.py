"""The controllers in simulation: `make study`. workflow/study.smk has its jobs, config/study.yaml its cases."""
