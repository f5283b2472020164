"""The controllers in simulation: every run of the study, as CSV files."""
