"""All benchmarks as one markdown table: `python -m tests.bench`, or `make bench`.

Every bench_*.py here has `rows()`, which returns a dictionary per case: floats are what was measured, everything else
says what the case is. The table is printed and written to results/bench.md.
"""

import importlib
import os
import platform
import sys
from pathlib import Path

OUT = Path("results/bench.md")


def main() -> None:
    lines = ["| benchmark | case | result |", "|---|---|---|"]
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"running {path.stem}", file=sys.stderr)
        benchmark = importlib.import_module(f"tests.bench.{path.stem}")
        lines += [line(path.stem.removeprefix("bench_"), row) for row in benchmark.rows()]
    text = "\n".join([*lines, "", f"{platform.platform()}, {os.cpu_count()} processors", ""])
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(text, encoding="utf-8")
    print(text)


def line(benchmark: str, row: dict) -> str:
    """One row of the table."""
    case = [f"{key} {value}" for key, value in row.items() if not isinstance(value, float)]
    result = [f"{key} {value:g}" for key, value in row.items() if isinstance(value, float)]
    return f"| {benchmark} | {', '.join(case)} | {', '.join(result)} |"


if __name__ == "__main__":
    main()
