"""From run folders to tables, figures and a page: reads only files that a run wrote, and knows no stack."""
