"""What another group size would have cost: estimates from the log of one job, without training anything.

`estimate.replay` is the entry; `sagc replay` is its command. subgroups.py counts, rollouts.py puts counts together to
steps, arms.py steps to runs, intervals.py says how far they vary, hours.py how long they take, suggest.py which
parameters fit.
"""
