"""openrlhf_patch.cpu: what it replaces is replaced where upstream looks it up."""

import os
import subprocess
import sys

from openrlhf_patch import cpu, names

PATCHED = """
import importlib, sys
from openrlhf_patch import cpu

cpu.install()
import openrlhf_patch.cpu.worker
for name in sys.argv[1:]:
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    print(name, found.__module__)
"""
SUBCLASSED = ("ReferenceModelActor", "WorkerWrap.update_weight", "WorkerWrap.init_process_group")
STAND_IN = ("unpad_input",)  # its module is imported with a stand-in, it is not replaced


def test_every_replaced_name_is_replaced_where_upstream_looks_it_up():
    replaced = [n for n in names.UPSTREAM if n.cpu and n.name not in (*SUBCLASSED, *STAND_IN)]
    wanted = [f"{upstream.module}:{upstream.name}" for upstream in replaced]
    environment = os.environ | {cpu.ENVIRONMENT: "1"}
    ran = subprocess.run(
        [sys.executable, "-c", PATCHED, *wanted], env=environment, capture_output=True, text=True, check=True
    )
    where = dict(line.split() for line in ran.stdout.splitlines() if line.partition(" ")[0] in wanted)
    assert len(wanted) >= 6
    assert {name: module.partition(".")[0] for name, module in where.items()} == dict.fromkeys(wanted, "openrlhf_patch")
