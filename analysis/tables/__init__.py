"""Tables over runs and arms."""
