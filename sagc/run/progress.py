"""Progress of a training run: a bar on a terminal, otherwise a line per step."""

import sys

from tqdm import tqdm

from sagc.trace import StepRecord


class Progress:
    """Shows each step's group size, straggler rate and reward on standard error."""

    def __init__(self, name: str, steps: int, done: int, enabled: bool = True):
        self.steps, self.enabled = steps, enabled
        self.terminal = sys.stderr.isatty()
        self.bar = tqdm(total=steps, initial=done, desc=name, unit="step", disable=not (enabled and self.terminal))
        if enabled and done:
            print(f"{name}: going on after step {done} of {steps}", file=sys.stderr)

    def step(self, record: StepRecord) -> None:
        """Show one finished step."""
        facts = {
            "G": record.group_size,
            "straggler": f"{record.straggler_rate:.2f}",
            "reward": "none" if record.reward is None else f"{record.reward:.3f}",
            "tokens": record.tokens,
        }
        if self.terminal:
            self.bar.set_postfix(facts, refresh=False)
            self.bar.update()
        elif self.enabled:
            text = " ".join(f"{name}={value}" for name, value in facts.items())
            print(f"step {record.step}/{self.steps} {text} {record.step_s:.1f}s", file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception) -> None:
        self.bar.close()
