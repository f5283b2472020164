"""When the parts of a run are ready: lines in openrlhf.log that start with SAGC, with seconds since the command."""

import os
import time

import psutil

ENVIRONMENT = "SAGC_COMMAND_TIME"  # set by the launcher, inherited by all processes


def command_time() -> dict[str, str]:
    """For the environment of the driver: when this process, the command, was started."""
    return {ENVIRONMENT: str(psutil.Process().create_time())}


def say(what: str) -> None:
    """Write a line of the start-up's profile."""
    started = float(os.environ.get(ENVIRONMENT, time.time()))
    print(f"SAGC {time.time() - started:6.1f} s: {what}", flush=True)
