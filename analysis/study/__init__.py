"""Tables and figures of `make study`, the controllers in simulation; see workflow/study.smk and config/study.yaml."""
