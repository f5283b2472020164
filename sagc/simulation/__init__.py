"""A synchronous step in a model: how long responses are, how long engines take over them, and what a controller does.

    lengths.py    response lengths: a distribution that drifts over training, or those of a run's traces
    engines.py    decode iterations of engines with continuous batching, a running limit and a KV cache
    run.py        a controller over simulated steps, and the seconds of each
    calibrate.py  the costs of a real run's steps, and how well they foretell steps that they were not fitted to
    config.py     what `sagc simulate` and the study read from YAML

docs/simulation.md says what is simplified and how far the seconds are from real ones. All of it is ours.
"""
