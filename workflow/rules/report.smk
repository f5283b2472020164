"""From run folders to one row per run, and to the tables over all runs."""


rule summarize:
    input:
        config=f"{RUN}/config.json",
        trace=f"{RUN}/trace.jsonl",
        evaluation=f"{RUN}/eval/evaluation.json",
    output:
        summary=f"{RUN}/summary.json",
    log:
        log_of("summarize"),
    benchmark:
        benchmark_of("summarize")
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        gpu=0,
    params:
        folder=RUN,
    message:
        "summarize {params.folder}" + ASKS
    shell:
        "{PYTHON} -m analysis.summary {params.folder:q} > {log:q} 2>&1"


rule tabulate:
    input:
        summaries=of_runs("summary.json"),
    output:
        table=f"{RESULTS}/summary.md",
        csv=f"{RESULTS}/summary.csv",
    log:
        log_of("tabulate", "summary"),
    benchmark:
        benchmark_of("tabulate", "summary")
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        gpu=0,
    message:
        "write the table {output.table}" + ASKS
    shell:
        "{PYTHON} -m analysis.tables --csv {output.csv:q} --markdown {output.table:q} {input.summaries:q} > {log:q} 2>&1"


rule tabulate_arms:
    input:
        table=rules.tabulate.output.csv,
    output:
        expand(
            f"{RESULTS}/tables/{{file}}",
            file=["arms.csv", "efficiency.md", "efficiency.tex", "accuracy.md", "accuracy.tex"],
        ),
    log:
        log_of("tabulate_arms", "arms"),
    benchmark:
        benchmark_of("tabulate_arms", "arms")
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        gpu=0,
    params:
        folder=f"{RESULTS}/tables",
    message:
        "write the tables over arms and seeds to {params.folder}" + ASKS
    shell:
        "{PYTHON} -m analysis.arm_tables --out {params.folder:q} {input.table:q} > {log:q} 2>&1"


rule compare_lengths:
    input:
        configs=of_runs("config.json"),
        evaluations=of_runs("eval/evaluation.json"),
    output:
        table=f"{RESULTS}/output_lengths.md",
        csv=f"{RESULTS}/output_lengths.csv",
    log:
        log_of("compare_lengths", "output_lengths"),
    benchmark:
        benchmark_of("compare_lengths", "output_lengths")
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        gpu=0,
    params:
        folders=[f"{RESULTS}/{cell.path}" for cell in GRID.cells()],
    message:
        "compare the output lengths in {output.table}" + ASKS
    shell:
        "{PYTHON} -m analysis.output_lengths --csv {output.csv:q} --markdown {output.table:q} {params.folders:q}"
        " > {log:q} 2>&1"
