"""The DAG: warm start -> train -> evaluate -> report, with all tables.

`snakemake --cores all` runs the grid of config/config.yaml; `--configfile FILE` uses another config instead, and
`--config key=value` changes single keys of either. Nothing trains before the whole config has been validated.
"""

from pathlib import Path

from sagc.config.grid import validate_grid
from sagc.config.reading import read_yaml
from sagc.run.scalars import check as check_logging


include: "workflow/rules/entry.smk"


PROJECT = Path(str(workflow.basedir))
DEFAULT_CONFIG = PROJECT / "config" / "config.yaml"

# Snakemake would merge a `configfile:` with the command line's, so the default is read only if none is given there.
if not workflow.overwrite_configfiles:
    checked(read_yaml, DEFAULT_CONFIG)  # Snakemake does not name the line of a YAML error

    configfile: str(DEFAULT_CONFIG)


GRID = checked(validate_grid, config, source=" ".join(map(str, workflow.configfiles)))
checked(check_logging, GRID.logging)
start(GRID.results)


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"


localrules:
    all,
    write_data,
    list_runs,


rule all:
    default_target: True
    input:
        overlap=OVERLAP,
        # Everything that the report writes, except the runs' rows, which `sagc clean` removes.
        report=[path for path in rules.report.output if Path(path).name != "summary.json"],
        traces=of_runs("trace.jsonl"),  # a run that was deleted is made again; one that was only cleaned is not


onstart:
    lock(RESULTS)
    say(f"{len(GRID.cells())} runs in {RESULTS}; every job writes its log below {RESULTS}/logs")


onsuccess:
    say(f"all done; open {RESULTS}/report.html in a browser; the table over all runs is {RESULTS}/summary.md")
    say(f"next: add seeds or runs to {workflow.configfiles[0]} and run the same command again; only those are run")


onerror:
    say(failures())
