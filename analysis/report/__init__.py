"""One self-contained HTML page over a results folder: verdict, tables, figures, a page per run, provenance."""
