"""`make faults`: every kind of fault at 20 moments of both stacks, about four hours on two cores.

    python -m tests.faults --moments 2 --stacks vanilla --kinds KillTrainer Interrupt

Results go to results/faults; what is there is not done again. The exit status is 1 where a grid was not as unbroken.
"""

import argparse
import sys
from pathlib import Path

from tests.faults.campaign import campaign, table
from tests.faults.kinds import KINDS

parser = argparse.ArgumentParser(prog="python -m tests.faults")
parser.add_argument("--moments", type=int, default=20)
parser.add_argument("--stacks", nargs="+", default=["vanilla", "openrlhf"], choices=["vanilla", "openrlhf"])
parser.add_argument("--kinds", nargs="+", default=[k.__name__ for k in KINDS], choices=[k.__name__ for k in KINDS])
parser.add_argument("--out", type=Path, default=Path("results/faults"))
given = parser.parse_args()

kinds, outcomes = [kind for kind in KINDS if kind.__name__ in given.kinds], []
planned = given.moments * sum(stack in kind.stacks for kind in kinds for stack in given.stacks)
for outcome in campaign(kinds, given.moments, given.stacks, given.out.absolute()):
    outcomes.append(outcome)
    where = f"{outcome.phase}, step {outcome.step}"
    print(
        f"{len(outcomes)} of {planned}: {outcome.stack}, {outcome.fault}, moment {outcome.moment}"
        f" ({where}; {outcome.call}): {outcome.outcome} [{outcome.seconds:.0f} s]",
        file=sys.stderr,
        flush=True,
    )
print(table(outcomes))
(given.out / "faults.md").write_text(table(outcomes) + "\n")
sys.exit(not all(outcome.good or outcome.outcome.startswith("skipped") for outcome in outcomes))
