"""From run folders to one row per run, to the tables over all runs, and to the report."""


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
        "{PYTHON} -m analysis.results.summary {params.folder:q} > {log:q} 2>&1"


rule tabulate:
    input:
        summaries=of_runs("summary.json"),
    output:
        table=report(f"{RESULTS}/summary.md", caption="../report/runs.rst", category="Tables"),
        csv=report(f"{RESULTS}/summary.csv", caption="../report/runs.rst", category="Tables"),
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
        "{PYTHON} -m analysis.tables.runs --csv {output.csv:q} --markdown {output.table:q} {input.summaries:q} > {log:q} 2>&1"


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
        "{PYTHON} -m analysis.tables.arm_tables --out {params.folder:q} {input.table:q} > {log:q} 2>&1"


rule compare_lengths:
    input:
        configs=of_runs("config.json"),
        evaluations=of_runs("eval/evaluation.json"),
    output:
        table=f"{RESULTS}/output_lengths.md",
        csv=f"{RESULTS}/output_lengths.csv",
        latex=f"{RESULTS}/output_lengths.tex",
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
        "{PYTHON} -m analysis.tables.output_lengths --csv {output.csv:q} --markdown {output.table:q} --latex {output.latex:q}"
        " {params.folders:q} > {log:q} 2>&1"


rule list_runs:
    output:
        f"{RESULTS}/grid.json",
    log:
        log_of("list_runs", "grid"),
    benchmark:
        benchmark_of("list_runs", "grid")
    priority: 1000  # there from the start, so that a report of an unfinished grid knows what is missing
    threads: 1
    resources:
        mem_mb=100,
        runtime=5,
        gpu=0,
    params:
        runs=json.dumps({"runs": [cell.model_dump() for cell in GRID.cells()]}),
    message:
        "list the grid's runs in {output}" + ASKS
    shell:
        "printf '%s\\n' {params.runs:q} > {output:q} 2> {log:q}"


rule report:
    input:
        runs=rules.list_runs.output,
        configs=of_runs("config.json"),
        traces=of_runs("trace.jsonl"),
        evaluations=of_runs("eval/evaluation.json"),
    output:
        page=report(f"{RESULTS}/report.html", caption="../report/page.rst", category="Report"),
        figures=report(
            directory(f"{RESULTS}/figures"),
            patterns=["{name}.svg"],
            caption="../report/figure.rst",
            category="Figures",
        ),
        tables=expand(
            f"{RESULTS}/tables/{{table}}.{{kind}}",
            table=["equal_cost", "pareto", "savings", "published"],
            kind=["csv", "md", "tex"],
        ),
    log:
        log_of("report", "report"),
    benchmark:
        benchmark_of("report", "report")
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
        gpu=0,
    params:
        results=RESULTS,
    message:
        "write the report {output.page}" + ASKS
    shell:
        "{PYTHON} -m analysis.report.build {params.results:q} > {log:q} 2>&1"
