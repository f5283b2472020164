"""A synchronous step in a model: how long responses are, how long engines take over them, and what a controller does.

    lengths.py      response lengths: a distribution that drifts over training, or those of a run's traces
    engines.py      decode iterations of engines with continuous batching, a running limit and a KV cache
    steps.py        a controller over simulated steps, and the seconds of each
    arms.py         every arm of a simulation; totals.py: what an arm's steps add up to
    step_time.py    the seconds of a step as a linear model of its work
    calibration.py  the costs of a real run's steps, and how well they predict steps that they were not fitted to
    config.py       what `sagc simulate` and the study read from YAML
    study/          the controllers over workloads and seeds: `make study`

docs/simulation.md says what is simplified and how far the seconds are from real ones. All of it is ours.
"""
