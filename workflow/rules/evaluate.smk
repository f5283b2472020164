"""Downstream evaluation of a trained model."""

from sagc.evaluation.problems import benchmark_files

TASKS = PROJECT / "config" / "benchmarks"


rule evaluate:
    input:
        config=f"{RUN}/config.json",
        model=f"{RUN}/model",
        benchmarks=[checked(benchmark_files, b, DATA, TASKS) for b in GRID.evaluation.benchmarks.values()],
    output:
        evaluation=f"{RUN}/eval/evaluation.json",
    log:
        log_of("evaluate"),
    benchmark:
        benchmark_of("evaluate")
    threads: GRID.jobs.evaluate.threads
    resources:
        **resources_of(GRID.jobs.evaluate),
    params:
        evaluation=GRID.evaluation.model_dump_json(),
        folder=RUN,
        data=DATA,
    message:
        "evaluate {wildcards.model} after {wildcards.algorithm} on {wildcards.stack},"
        " group size {wildcards.group}, seed {wildcards.seed}" + ASKS
    shell:
        ENVIRONMENT + " {PYTHON} -m sagc.cli evaluate-job {params.folder:q} --evaluation {params.evaluation:q}"
        " --data {params.data:q} > {log:q} 2>&1"
