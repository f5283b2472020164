"""The start of both Snakefiles: the environment, one-sentence errors, and a lock on the results."""

import atexit
import contextlib
import sys
from pathlib import Path

from sagc.errors import UserError
from sagc.run.folder import RunFolder
from sagc.system import environment
from sagc.system.clock import end_future

environment.prepare()
PYTHON = sys.executable  # `sagc` is not on PATH if Snakemake was called without activating its environment
LOCKS = contextlib.ExitStack()
atexit.register(LOCKS.close)


def checked(function, *arguments, **options):
    """Call the function; stop with one sentence if the user has made a mistake."""
    try:
        return function(*arguments, **options)
    except UserError as error:
        sys.exit(f"Error: {error}")


def say(text):
    print(f"SAGC: {text}", file=sys.stderr)


def lock(results):
    """Lock the results until this process ends: a second call would run the same jobs."""
    checked(LOCKS.enter_context, RunFolder(results).lock())


def start(results):
    """Reset file times in the future, before jobs are chosen and only in the process that chooses them."""
    if workflow.is_main_process and (found := end_future(Path(results))):
        say(
            f"{found} files in {results} were from the future, as after a clock is set back; they are now from this moment"
        )
