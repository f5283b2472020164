"""The embedded task "guess and compare", its tokenizer, its quarter-million-parameter models and their warm start."""
