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
# No parameter of the rule: whoever asks for logs of a grid that is half done does not train its finished runs again.
LOGGING = GRID.logging.model_dump_json()
# Tokenizers would start threads beside the job's, and libraries' progress bars would fill the logs.
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
    """The resolved run of a job; also of one beside the grid, when a target on the command line names it."""
    return resolve(**{axis: wildcards[axis] for axis in Cell.model_fields})


@cache
def resolve(**names) -> RunConfig:
    return GRID.run(Cell(**names))


def log_of(rule, path=CELL):
    return f"{RESULTS}/logs/{rule}/{path}.log"


def benchmark_of(rule, path=CELL):
    return f"{RESULTS}/benchmarks/{rule}/{path}.tsv"


def memory_of(job: JobConfig, attempt):
    """Twice as much once a job has failed, and no more: a time limit or a preemption counts as an attempt, too."""
    return job.mem_mb * min(attempt, 2)


def resources_of(job: JobConfig):
    return {"mem_mb": lambda wildcards, attempt: memory_of(job, attempt), "runtime": job.runtime, "gpu": job.gpus}


# In the messages of the long jobs: what a dry run is read for.
ASKS = " ({resources.gpu} GPUs, {resources.mem_mb} MB, {resources.runtime} minutes at most)"


def failures():
    """The failed jobs, each with its log and the last line of that, which says why."""
    lines = []
    for job in workflow.scheduler.failed:
        for log in map(Path, job.log):
            last = log.read_text(errors="replace").strip().splitlines()[-1:] if log.exists() else []
            lines.append(f"{job.rule.name} failed, see {log}: {last[0] if last else 'it wrote nothing'}")
    return "\nSAGC: ".join(lines or ["stopped before any job failed; the messages above say why"])
