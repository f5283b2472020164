"""Training. The run folder also holds checkpoints/, which is not an output: Snakemake deletes the outputs of a job that
failed or was killed, and the next attempt continues from the checkpoint.
"""


def starting_model(wildcards):
    """The model, as an input if the DAG makes it."""
    return MODEL.format(model=wildcards.model) if GRID.models[wildcards.model].type == "tiny" else []


def longest_first(wildcards):
    """Expected samples per prompt: with the longest jobs first, no core waits for one of them at the end."""
    run = run_of(wildcards)
    ladder = run.build_controller().ladder
    return sum(ladder) / len(ladder) * (1.6 if run.algorithm.dynamic_sampling else 1)  # rounds per step, measured


def job_of(wildcards):
    """What a run of this stack needs from the machine."""
    return GRID.jobs.train_openrlhf if wildcards.stack == "openrlhf" else GRID.jobs.train


def processes_of(wildcards):
    """How Python is called: the vanilla stack has a process per GPU, the openrlhf stack starts its own."""
    gpus = GRID.jobs.train.gpus
    several = wildcards.stack == "vanilla" and gpus > 1
    return f"-m torch.distributed.run --standalone --nproc-per-node {gpus}" if several else ""


rule train:
    input:
        model=starting_model,
        data=PROMPTS,
    output:
        config=f"{RUN}/config.json",
        trace=f"{RUN}/trace.jsonl",
        model=directory(f"{RUN}/model"),
    log:
        log_of("train"),
    benchmark:
        benchmark_of("train")
    priority: longest_first
    threads: lambda wildcards: job_of(wildcards).threads
    resources:
        mem_mb=lambda wildcards, attempt: memory_of(job_of(wildcards), attempt),
        runtime=lambda wildcards: job_of(wildcards).runtime,
        gpu=lambda wildcards: job_of(wildcards).gpus,
    params:
        # The whole run as JSON: the job trains what was validated, and any change in it reruns the job.
        run=lambda wildcards: run_of(wildcards).model_dump_json(),
        model=lambda wildcards, input: input.model or GRID.models[wildcards.model].path,
        folder=RUN,
        processes=processes_of,
    message:
        "train {wildcards.model} with {wildcards.algorithm} on {wildcards.stack},"
        " group size {wildcards.group}, seed {wildcards.seed}" + ASKS
    shell:
        ENVIRONMENT + " {PYTHON} {params.processes} -m sagc.cli train-job {params.folder:q} --resolved {params.run:q}"
        " --model {params.model:q} --data {input.data:q} --logging {LOGGING:q} > {log:q} 2>&1"
