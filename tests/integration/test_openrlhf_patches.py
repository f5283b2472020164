"""openrlhf_patch.cpu: what it replaces is replaced where upstream looks it up."""

import os
import subprocess
import sys

from openrlhf_patch import cpu, names

IDS_ONLY = """
from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind
from openrlhf_patch.agent import ids_only

for logprobs in (None, 1):
    asked = SamplingParams(temperature=0.7, top_p=0.9, max_tokens=33, min_tokens=2, logprobs=logprobs)
    before, quiet = repr(asked), ids_only(asked)
    assert repr(asked) == before
    assert (quiet.detokenize, quiet.output_kind) == (False, RequestOutputKind.FINAL_ONLY)
    assert quiet.logprobs == (None if logprobs is None else 0)
    quiet.detokenize, quiet.output_kind, quiet.logprobs = asked.detokenize, asked.output_kind, asked.logprobs
    assert repr(quiet) == before
"""

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
    replaced = [n for n in names.rows() if n.cpu and n.name not in (*SUBCLASSED, *STAND_IN)]
    wanted = [f"{row.module}:{row.name}" for row in replaced]
    environment = os.environ | {cpu.ENVIRONMENT: "1"}
    ran = subprocess.run(
        [sys.executable, "-c", PATCHED, *wanted], env=environment, capture_output=True, text=True, check=True
    )
    where = dict(line.split() for line in ran.stdout.splitlines() if line.partition(" ")[0] in wanted)
    assert len(wanted) >= 6
    assert {name: module.partition(".")[0] for name, module in where.items()} == dict.fromkeys(wanted, "openrlhf_patch")


def test_vllm_is_asked_for_the_same_sampling_without_text():
    subprocess.run([sys.executable, "-c", IDS_ONLY], check=True, env=os.environ | {cpu.ENVIRONMENT: "1"})
