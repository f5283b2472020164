"""From run folders to one row per run, and to the table over all runs."""


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
    params:
        folder=RUN,
    message:
        "summarize {params.folder}"
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
    message:
        "write the table {output.table}"
    shell:
        "{PYTHON} -m analysis.tables --csv {output.csv:q} --markdown {output.table:q} {input.summaries:q} > {log:q} 2>&1"
