"""From the validated grid to runs, paths and jobs; what several rules share."""

import json
import re
from functools import cache

from sagc.config.run import Cell, RunConfig
from sagc.data.prompts import embedded_folder, prompts_path
from sagc.config.sections import JobConfig
from sagc.controllers.registry import CONTROLLED
from sagc.data.preparation import source_of

RESULTS = str(Path(GRID.results))
CELL = "{model}/{algorithm}/{stack}/{group}/seed{seed}"
RUN = f"{RESULTS}/{CELL}"
MODEL = f"{RESULTS}/models/{{model}}"
DATA = str(embedded_folder(GRID))
PROMPTS = str(prompts_path(GRID, "{model}"))
OVERLAP = [] if GRID.data.type == "tiny" else [f"{RESULTS}/data/overlap.json", f"{RESULTS}/data/overlap.md"]
# Not a parameter of the rule: asking for logs in a half-finished grid must not train its finished runs again.
LOGGING = GRID.logging.model_dump_json()
# Tokenizers would start additional threads, and libraries' progress bars would fill the logs.
ENVIRONMENT = "export OMP_NUM_THREADS={threads} MKL_NUM_THREADS={threads} TOKENIZERS_PARALLELISM=false TQDM_DISABLE=1;"


wildcard_constraints:
    model="|".join(map(re.escape, GRID.models)),
    algorithm="|".join(map(re.escape, GRID.algorithms)),
    stack="vanilla|openrlhf",
    group="|".join([r"\d+", *map(re.escape, [*CONTROLLED, *GRID.controllers])]),
    seed=r"\d+",


def of_runs(path):
    """A path below the run folder, for every run of the grid."""
    return [f"{RESULTS}/{cell.path}/{path}" for cell in GRID.cells()]


def run_of(wildcards):
    """The resolved run of a job; also of one outside the grid, if a target on the command line names it."""
    return resolve(**{axis: wildcards[axis] for axis in Cell.model_fields})


@cache
def resolve(**names) -> RunConfig:
    return GRID.run(Cell(**names))


def log_of(rule, path=CELL):
    return f"{RESULTS}/logs/{rule}/{path}.log"


def benchmark_of(rule, path=CELL):
    return f"{RESULTS}/benchmarks/{rule}/{path}.tsv"


def memory_of(job: JobConfig, attempt):
    """Twice as much once a job has failed, but no more: time limits and preemptions also count as attempts."""
    return job.mem_mb * min(attempt, 2)


def resources_of(job: JobConfig):
    return {"mem_mb": lambda wildcards, attempt: memory_of(job, attempt), "runtime": job.runtime, "gpu": job.gpus}


# In the messages of the long jobs, for readers of a dry run.
ASKS = " ({resources.gpu} GPUs, {resources.mem_mb} MB, {resources.runtime} minutes at most)"


def failures():
    """The failed jobs, each with its log and the log's last line, which says why."""
    lines = []
    for job in workflow.scheduler.failed:
        for log in map(Path, job.log):
            last = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
            lines.append(f"{job.rule.name} failed, see {log}: {last[0] if last else 'it wrote nothing'}")
    return "\nSAGC: ".join(lines or ["stopped before any job failed; the messages above say why"])
