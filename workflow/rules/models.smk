"""The embedded models, made from scratch. Pretrained models need no rule."""


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
        steps=lambda wildcards: GRID.models[wildcards.model].warm_start.steps,
    message:
        "make the embedded model {wildcards.model}" + ASKS
    shell:
        ENVIRONMENT + " {PYTHON} -m sagc.tiny.warm_start --architecture {params.architecture} --seed {params.seed}"
        " --steps {params.steps} --out {output.model:q} > {log:q} 2>&1"
