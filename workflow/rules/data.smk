"""The problems of the embedded task, and training prompts from other data, which are compared with the benchmarks."""


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
        gpu=0,
    params:
        folder=DATA,
        seed=GRID.problems_seed,
    message:
        "write the problems of the embedded task to {params.folder}" + ASKS
    shell:
        "{PYTHON} -c 'import sys; from sagc.tiny.data import write_datasets; write_datasets(sys.argv[1], int(sys.argv[2]))'"
        " {params.folder:q} {params.seed} > {log:q} 2>&1"


if GRID.data.type != "tiny":

    # Both may use the Hub, which only the machine that runs Snakemake is sure to reach.
    localrules:
        write_prompts,
        check_overlap,

    rule write_prompts:
        input:
            data=GRID.data.path if GRID.data.type == "jsonl" else [],
        output:
            prompts=PROMPTS,
            record=str(Path(PROMPTS).with_suffix(".json")),
        log:
            log_of("write_prompts", "{model}"),
        benchmark:
            benchmark_of("write_prompts", "{model}")
        threads: 1
        resources:
            mem_mb=2000,
            runtime=30,
            gpu=0,
        params:
            source=lambda wildcards: source_of(GRID, wildcards.model).model_dump_json(),
        message:
            "write the training prompts of {wildcards.model} to {output.prompts}" + ASKS
        shell:
            "{PYTHON} -m sagc.data.preparation --source {params.source:q} --out {output.prompts:q} > {log:q} 2>&1"

    rule check_overlap:
        input:
            prompts=PROMPTS.format(model=GRID.cells()[0].model),  # every model has the same problems
            benchmarks=lambda _: rules.evaluate.input.benchmarks,
        output:
            data=OVERLAP[0],
            table=OVERLAP[1],
        log:
            log_of("check_overlap", "overlap"),
        benchmark:
            benchmark_of("check_overlap", "overlap")
        threads: 1
        resources:
            mem_mb=2000,
            runtime=30,
            gpu=0,
        params:
            template=lambda _: GRID.data.template or "{problem}",  # a function, so that braces are no wildcard
            benchmarks=json.dumps(
                {name: b.model_dump(exclude={"samples"}) for name, b in GRID.evaluation.benchmarks.items()}
            ),
            data=DATA,
        message:
            "look for the benchmarks' problems among the training prompts, see {output.table}" + ASKS
        shell:
            "{PYTHON} -m sagc.evaluation.overlap {input.prompts:q} --template {params.template:q} --data {params.data:q}"
            " --benchmarks {params.benchmarks:q} --json {output.data:q} --markdown {output.table:q} > {log:q} 2>&1"
