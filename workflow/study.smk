"""The study of the controllers in simulation, config/study.yaml: `make study`. It needs no other part of the DAG."""

from pathlib import Path

import sagc
from sagc.simulation.study.config import load_study


include: "rules/entry.smk"


CONFIG = str(Path(str(workflow.basedir)).parent / "config" / "study.yaml")
CONFIG = str(workflow.configfiles[0]) if workflow.configfiles else CONFIG
STUDY = checked(load_study, CONFIG)
RESULTS = str(Path(STUDY.results))
start(RESULTS)
# The study is repeated if the code of a controller changes.
LIBRARY = Path(sagc.__file__).parent
PLAYED = ("controllers/*.py", "posterior.py", "lengths.py", "simulation/**/*.py")
CODE = [str(path) for pattern in PLAYED for path in sorted(LIBRARY.glob(pattern))]


wildcard_constraints:
    name="[^/]+",


localrules:
    all,


rule all:
    default_target: True
    input:
        f"{RESULTS}/table.md",
        f"{RESULTS}/variants.md",
        f"{RESULTS}/figures/savings.svg",


rule play:
    input:
        config=CONFIG,
        code=CODE,
    output:
        runs=f"{RESULTS}/workloads/{{name}}/runs.csv",
        steps=f"{RESULTS}/workloads/{{name}}/steps.csv",
    log:
        f"{RESULTS}/logs/play/{{name}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/play/{{name}}.tsv"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        folder=f"{RESULTS}/workloads/{{name}}",
    message:
        "every arm on the workload {wildcards.name}"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m sagc.simulation.study.play {wildcards.name:q} --config {input.config:q}"
        " --out {params.folder:q} > {log:q} 2>&1"


rule vary:
    input:
        config=CONFIG,
        code=CODE,
    output:
        f"{RESULTS}/sensitivity/{{name}}.csv",
    log:
        f"{RESULTS}/logs/vary/{{name}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/vary/{{name}}.tsv"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    message:
        "the controllers with other values of {wildcards.name}"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m sagc.simulation.study.sensitivity {wildcards.name:q} --config {input.config:q}"
        " --out {output:q} > {log:q} 2>&1"


rule compare_variants:
    input:
        config=CONFIG,
        code=CODE,
    output:
        f"{RESULTS}/variants.csv",
    log:
        f"{RESULTS}/logs/compare_variants.log",
    benchmark:
        f"{RESULTS}/benchmarks/compare_variants.tsv"
    priority: 1  # the longest job
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    message:
        "other parameters of sagc-robust"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m sagc.simulation.study.variants --config {input.config:q} --out {output:q}"
        " > {log:q} 2>&1"


rule save:
    input:
        config=CONFIG,
        code=CODE,
    output:
        f"{RESULTS}/savings/{{name}}.csv",
    log:
        f"{RESULTS}/logs/save/{{name}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/save/{{name}}.tsv"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    message:
        "a changing size against static ones on lengths with a {wildcards.name} tail"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m sagc.simulation.study.savings {wildcards.name:q} --config {input.config:q}"
        " --out {output:q} > {log:q} 2>&1"


rule tabulate:
    input:
        config=CONFIG,
        runs=expand(rules.play.output.runs, name=STUDY.workloads),
        variants=rules.compare_variants.output,
    output:
        expand(f"{RESULTS}/{{name}}.{{kind}}", name=["table", "verdict"], kind=["csv", "md"]),
        f"{RESULTS}/variants.md",
    log:
        f"{RESULTS}/logs/tabulate.log",
    benchmark:
        f"{RESULTS}/benchmarks/tabulate.tsv"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        folder=RESULTS,
    message:
        "write the table and the verdict to {params.folder}"
    shell:
        "{PYTHON} -m analysis.study.tabulate --config {input.config:q} --out {params.folder:q} --variants {input.variants:q}"
        " {input.runs:q} > {log:q} 2>&1"


rule draw:
    input:
        config=CONFIG,
        steps=expand(rules.play.output.steps, name=STUDY.workloads),
        varied=expand(rules.vary.output, name=STUDY.sensitivity.parameters),
        saved=expand(rules.save.output, name=STUDY.savings.tails),
    output:
        expand(
            f"{RESULTS}/figures/{{name}}.{{kind}}",
            name=["control", "sensitivity", "savings"],
            kind=["svg", "png", "csv"],
        ),
    log:
        f"{RESULTS}/logs/draw.log",
    benchmark:
        f"{RESULTS}/benchmarks/draw.tsv"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        folder=RESULTS,
        figures=f"{RESULTS}/figures",
    message:
        "draw the figures of {params.figures}"
    shell:
        "{PYTHON} -m analysis.study.figures --config {input.config:q} --out {params.figures:q} {params.folder:q}"
        " > {log:q} 2>&1"


onstart:
    lock(RESULTS)


onsuccess:
    say(f"the study is in {RESULTS}: table.md, verdict.md, variants.md, figures/")
