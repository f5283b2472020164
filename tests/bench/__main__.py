"""All benchmarks as one markdown table: `python -m tests.bench`, or `make bench`; with names, only those.

    python -m tests.bench controller trainer

Every bench_*.py here has `rows()`, which returns a dictionary per case: floats are what was measured, everything else
says what the case is. The table is printed; that of all benchmarks is written to results/bench.md, too.
"""

import importlib
import os
import platform
import sys
from pathlib import Path

OUT = Path("results/bench.md")


def main(chosen: list[str]) -> None:
    known = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    if unknown := set(chosen) - set(known):
        sys.exit(f"Error: no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    lines = ["| benchmark | case | result |", "|---|---|---|"]
    print("\n".join(lines))
    for name in chosen or known:
        print(f"running {name}", file=sys.stderr)
        benchmark = importlib.import_module(f"tests.bench.bench_{name}")
        new = [line(name, row) for row in benchmark.rows()]
        print("\n".join(new), flush=True)
        lines += new
    machine = f"\n{platform.platform()}, {os.cpu_count()} processors\n"
    print(machine)
    if not chosen:
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text("\n".join([*lines, machine]), encoding="utf-8")


def line(benchmark: str, row: dict) -> str:
    """One row of the table."""
    case = [f"{key} {value}" for key, value in row.items() if not isinstance(value, float)]
    result = [f"{key} {value:g}" for key, value in row.items() if isinstance(value, float)]
    return f"| {benchmark} | {', '.join(case)} | {', '.join(result)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
