"""From run folders to a row per run, tables, figures and the report."""


rule list_runs:
    output:
        f"{RESULTS}/grid.json",
    log:
        log_of("list_runs", "grid"),
    benchmark:
        benchmark_of("list_runs", "grid")
    priority: 1000  # first, so that a report of an unfinished grid knows what is missing
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
        summaries=of_runs("summary.json"),
        table=report(
            expand(f"{RESULTS}/summary.{{kind}}", kind=["md", "csv"]), caption="../report/runs.rst", category="Tables"
        ),
        lengths=expand(f"{RESULTS}/output_lengths.{{kind}}", kind=["md", "csv", "tex"]),
        tables=expand(
            f"{RESULTS}/tables/{{table}}.{{kind}}",
            table=["equal_cost", "pareto", "savings", "published"],
            kind=["csv", "md", "tex"],
        ),
        arms=expand(
            f"{RESULTS}/tables/{{file}}",
            file=["arms.csv", "efficiency.md", "efficiency.tex", "accuracy.md", "accuracy.tex"],
        ),
        figures=report(
            directory(f"{RESULTS}/figures"),
            patterns=["{name}.svg"],
            caption="../report/figure.rst",
            category="Figures",
        ),
        page=report(f"{RESULTS}/report.html", caption="../report/page.rst", category="Report"),
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
        "write the tables, such as {params.results}/summary.md, the figures and the report {output.page}" + ASKS
    shell:
        "{PYTHON} -m analysis.report.build {params.results:q} > {log:q} 2>&1"
