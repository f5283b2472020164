"""Figures over the runs of a results folder."""
