"""The embedded task: problems, and models made from scratch. Pretrained models need no rule."""


def warm_start_steps(wildcards):
    """The option where the config does not leave the steps to the tuned default."""
    steps = GRID.models[wildcards.model].warm_start.steps
    return f"--steps {steps}" if steps else ""


rule write_data:
    output:
        train=f"{DATA}/train.jsonl",
        heldout=f"{DATA}/heldout.jsonl",
        harder=f"{DATA}/harder.jsonl",
    log:
        log_of("write_data", "tiny"),
    benchmark:
        benchmark_of("write_data", "tiny")
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        folder=DATA,
        seed=GRID.problems_seed,
    message:
        "write the problems of the embedded task to {params.folder}"
    shell:
        "{PYTHON} -c 'import sys; from sagc.tiny.data import write_datasets; write_datasets(sys.argv[1], int(sys.argv[2]))'"
        " {params.folder:q} {params.seed} > {log:q} 2>&1"


rule warm_start:
    output:
        model=directory(MODEL),
    log:
        log_of("warm_start", "{model}"),
    benchmark:
        benchmark_of("warm_start", "{model}")
    wildcard_constraints:
        model="|".join([re.escape(name) for name, model in GRID.models.items() if model.type == "tiny"]) or "(?!)",
    threads: GRID.jobs.warm_start.threads
    resources:
        **resources_of(GRID.jobs.warm_start),
    params:
        architecture=lambda wildcards: GRID.models[wildcards.model].architecture,
        seed=lambda wildcards: GRID.models[wildcards.model].warm_start.seed,
        steps=warm_start_steps,
    message:
        "make the embedded model {wildcards.model}"
    shell:
        ENVIRONMENT + " {PYTHON} -m sagc.tiny.warm_start --architecture {params.architecture} --seed {params.seed}"
        " {params.steps} --out {output.model:q} > {log:q} 2>&1"
