"""What both Snakefiles start with: the environment, refusals in one sentence, and a lock on the results."""

import atexit
import contextlib
import sys
from pathlib import Path

from sagc.errors import UserError
from sagc.run.folder import RunFolder
from sagc.system import environment
from sagc.system.clock import end_future

environment.prepare()
PYTHON = sys.executable  # `sagc` is not on PATH where Snakemake was called without activating its environment
LOCKS = contextlib.ExitStack()
atexit.register(LOCKS.close)


def checked(function, *arguments, **options):
    """Stop with one sentence where a user has made a mistake."""
    try:
        return function(*arguments, **options)
    except UserError as error:
        sys.exit(f"Error: {error}")


def say(text):
    print(f"SAGC: {text}", file=sys.stderr)


def lock(results):
    """Keep a second call away from the results until this process ends: both would run the same jobs."""
    checked(LOCKS.enter_context, RunFolder(results).lock())


def start(results):
    """Before the jobs are chosen, and only in the process that chooses them: no file of the results is from the future."""
    if workflow.is_main_process and (found := end_future(Path(results))):
        say(
            f"{found} files in {results} were from the future, as after a clock is set back; they are now from this moment"
        )
