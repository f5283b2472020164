"""Clocks that are set back. Files of before are then younger than whatever is made next. Snakemake takes that for a
mistake and deletes the outputs of the job, a training's too, until the clock is where it was. So every file that is
from the future becomes one of now, before the jobs are chosen and at the end of each. What now is says a file that is
touched beside the others: its file system may go by another machine's clock.
"""

import shlex
import subprocess

# Inputs of any rule. With the same time for all, none of them becomes younger than another.
WATCHED = sorted({RESULTS, str(TASKS), *(str(Path(file).parent) for file in rules.evaluate.input.benchmarks)})
WATCHED += [GRID.data.path] if GRID.data.type == "jsonl" else []
NOW = shlex.quote(f"{RESULTS}/.now")
PRESENT = (
    f"{{ touch {NOW} && find {' '.join(map(shlex.quote, WATCHED))} -newer {NOW} "
    f"-exec touch --no-dereference --reference={NOW} {{}} + ; }} 2> /dev/null || true"
)

subprocess.run(["bash", "-c", PRESENT], check=False)
shell.suffix("; " + PRESENT.replace("{", "{{").replace("}", "}}"))
