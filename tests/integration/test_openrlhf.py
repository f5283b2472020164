"""The openrlhf stack: the real OpenRLHF, Ray, DeepSpeed and vLLM, on embedded models. Every run takes about a minute to
start, so a test asks of a run all that it can tell."""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM

from openrlhf_patch.flags import build_flags
from openrlhf_patch.job import Spec
from openrlhf_patch.launch import environment
from openrlhf_patch.preflight import measure_prompts
from openrlhf_patch.processes import run_to_end
from sagc.config import RunConfig
from sagc.data import read_prompts
from sagc.prompts import PromptStream
from sagc.tiny.models import build_model
from sagc.tiny.tokenizer import build_tokenizer
from sagc.trace import read_trace

SCRIPTED = Path(__file__).with_name("openrlhf_scripted.py")


@pytest.fixture
def openrlhf(resolve):
    """`openrlhf("dapo", 4, actors=2, steps=3)` -> RunConfig of the openrlhf stack on CPUs."""

    def build(algorithm="dapo", group=4, actors=1, zero_stage=2, kl_coef=0.0, reward="tiny", **training) -> RunConfig:
        run = resolve(algorithm, group, **training).model_dump(mode="json")
        run["cell"]["stack"], run["algorithm"]["kl_coef"], run["reward"] = "openrlhf", kl_coef, reward
        run["openrlhf"] = {"device": "cpu", "attention": "sdpa", "actors": actors, "zero_stage": zero_stage}
        return RunConfig.model_validate(run)

    return build


def ray_processes() -> set[int]:
    """Processes of Ray and vLLM on this machine."""
    found = set()
    for process in psutil.process_iter(["pid", "name", "cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or [process.info["name"] or ""])
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(
            mark in words for mark in ("ray::", "raylet", "gcs_server", "VLLM::", "openrlhf_patch.driver")
        ):
            found.add(process.info["pid"])
    return found


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = ray_processes()
    yield
    left = ray_processes() - before
    assert not left, [psutil.Process(pid).cmdline() for pid in left]


def run_scripted(run, folder, model, data, sizes, *options) -> list:
    """Train with a scripted group size; returns the trace."""
    folder.mkdir(exist_ok=True)
    prompts = measure_prompts(run, str(model), read_prompts(data))
    paths = {"model": str(model), "data": data, "checkpoints": folder / "checkpoints", "output": folder / "model"}
    flags = build_flags(run, **paths, prompt_tokens=prompts.tokens, chat=prompts.chat, seed=1)
    with tempfile.TemporaryDirectory(prefix="sagc-") as scratch:
        spec = Spec(run.model_dump(mode="json"), flags, str(data), str(folder / "trace.jsonl"), scratch)
        command = [sys.executable, str(SCRIPTED), str(spec.write(folder / "job.json")), str(folder), sizes, *options]
        status = run_to_end(command, environment(run), folder / "log", lambda: None)
    assert status == 0, (folder / "log").read_text()[-5000:]
    return list(read_trace(folder / "trace.jsonl"))


def updates(folder: Path, ranks: int = 1) -> list[list[dict]]:
    """What the policy processes saw, per update and rank."""
    count = len(list(folder.glob("update*.rank0.pt")))
    return [[torch.load(folder / f"update{i + 1}.rank{r}.pt") for r in range(ranks)] for i in range(count)]


def log_probabilities(net, sample: dict) -> torch.Tensor:
    """Of the response's tokens, under a model; (tokens,), zero where they are masked."""
    ids, mask = sample["sequences"], sample["action_mask"].float()
    logits = net(ids[None]).logits[0, :-1].float()
    return logits.log_softmax(-1).gather(1, ids[1:, None])[:, 0][-len(mask) :] * mask


def reference_gradient(model: Path, run: RunConfig, seen: list[dict]) -> dict[str, torch.Tensor]:
    """The gradient of one update in plain torch: sample by sample, in bfloat16 as the policy, summed in float32."""
    net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, attn_implementation="sdpa")
    net.load_state_dict(seen[0]["weights"], strict=False)
    total = {name: torch.zeros(parameter.shape) for name, parameter in net.named_parameters()}
    samples = [sample for rank in seen for sample in rank["samples"] if sample["action_mask"].any()]
    tokens = sum(int(sample["action_mask"].sum()) for sample in samples)
    low, high = 1 - run.algorithm.clip_low, 1 + run.algorithm.clip_high
    for sample in samples:
        mask, old = sample["action_mask"].float(), sample["action_log_probs"].float()
        ratio, advantage = (log_probabilities(net, sample) - old).exp(), sample["advantages"].float()
        surrogate = torch.min(ratio * advantage, ratio.clamp(low, high) * advantage)
        correction = (old - sample["rollout_log_probs"].float()).exp()  # of vLLM's rounding: OpenRLHF's "token" level
        correction = torch.where((correction >= 0.5) & (correction <= 5.0), correction, 0.0)
        share = 1 / tokens if run.algorithm.loss == "dapo" else 1 / (mask.sum() * len(samples))
        net.zero_grad()
        (-(correction * surrogate * mask).sum() * share).backward()
        for name, parameter in net.named_parameters():
            total[name] += parameter.grad.float()
    return total


def assert_same_gradient(found: dict, expected: dict) -> None:
    """Within the rounding of bfloat16, in direction and length."""
    names = sorted(expected)
    assert sorted(name for name, gradient in found.items() if gradient is not None) == names
    a = torch.cat([found[name].float().flatten() for name in names])
    b = torch.cat([expected[name].flatten() for name in names])
    assert torch.nn.functional.cosine_similarity(a, b, dim=0) > 0.999
    assert 0.99 < a.norm() / b.norm() < 1.01


@pytest.mark.parametrize(("algorithm", "actors"), [("grpo", 1), ("dapo", 2)])
def test_the_group_size_changes_between_steps(tmp_path, openrlhf, tiny_model, tiny_data, algorithm, actors):
    """Numbers of samples and updates, gradients against plain torch, weight sync.

    One arm holds the samples fixed, the other holds the prompts fixed and has two gloo processes.
    """
    held = {"hold": "samples", "samples_per_step": 96} if algorithm == "grpo" else {"prompts_per_step": 16}
    run = openrlhf(algorithm, 4, actors, steps=3, micro_batches=2, learning_rate=1e-4, **held)
    trace = run_scripted(run, tmp_path, tiny_model, tiny_data / "train.jsonl", "4,8,3")
    assert [record.group_size for record in trace] == [4, 8, 3]
    assert [record.next_group_size for record in trace] == [8, 3, 3]
    assert [record.optimizer_steps for record in trace] == [1, 1, 1]
    assert [record.policy_version for record in trace] == [0, 1, 2]
    seen = updates(tmp_path, actors)
    for record, ranks in zip(trace, seen, strict=True):
        trained = sum(bool(sample["action_mask"].any()) for rank in ranks for sample in rank["samples"])
        assert trained == record.samples == record.kept_groups * record.group_size
        assert record.prompts == (96 // record.group_size if algorithm == "grpo" else 16)
        filled = record.prompts * record.group_size // actors  # up, with samples that do not count
        assert [len(rank["samples"]) for rank in ranks] == [filled] * actors
        assert [len(rank["micro_batches"]) for rank in ranks] == [2] * actors
        assert all(len(group) == record.group_size for group in record.lengths)
        assert abs(record.vllm_kl) < 2e-3
        assert record.step_s == pytest.approx(record.rollout_s + record.train_s + record.sync_s)
        assert min(record.rollout_s, record.train_s, record.sync_s) > 0
        assert_same_gradient(ranks[0]["gradients"], reference_gradient(tiny_model, run, ranks))
    rows = [row for record in trace for row in record.prompt_index]
    drawn = PromptStream(len(read_prompts(tiny_data / "train.jsonl")), run.seeds["data"]).take(len(rows))
    assert rows == drawn if algorithm == "grpo" else sorted(rows) == sorted(drawn)


def test_vllm_drifts_from_the_policy_when_it_gets_no_new_weights(tmp_path, openrlhf, tiny_model, tiny_data):
    """And the reference model of a KL term stays the starting model."""
    run = openrlhf("grpo", 8, kl_coef=0.1, steps=6, prompts_per_step=8, micro_batches=1, learning_rate=2e-3)
    trace = run_scripted(run, tmp_path, tiny_model, tiny_data / "train.jsonl", "8", "--no-sync")
    assert abs(trace[0].vllm_kl) < 2e-3
    assert abs(trace[-1].vllm_kl) > 2e-3
    start = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16, attn_implementation="sdpa")
    ((first,), *_, (last,)) = updates(tmp_path)
    for update in (first, last):
        for sample in update["samples"][:8]:
            torch.testing.assert_close(
                sample["base_action_log_probs"].float(), log_probabilities(start, sample).detach(), atol=0.1, rtol=0
            )
    moved = [(s["base_action_log_probs"] - s["action_log_probs"]).abs().max() for s in last["samples"]]
    assert max(moved) > 0.5


def test_rewards_that_are_all_equal_end(tmp_path, openrlhf):
    """A model that solves nothing: no group is informative, every prompt is replaced twice, nothing is learnt.

    The reward is math-verify's, in the engine's Ray worker; one of the answers hangs its parser.
    """
    model, data = tmp_path / "model", tmp_path / "data.jsonl"
    tokenizer = build_tokenizer()
    build_model("qwen2", tokenizer, seed=0).save_pretrained(model)
    tokenizer.save_pretrained(model)
    rows = [{"prompt": "1x +2 = 3:", "answer": "9^{9^{9^{9}}}" if i == 0 else "1000"} for i in range(24)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = openrlhf("dapo", 4, reward="math", steps=2, prompts_per_step=4, micro_batches=2)
    trace = run_scripted(run, tmp_path / "run", model, data, "4")
    assert [record.rounds for record in trace] == [[4, 4, 4]] * 2
    assert [(record.kept_groups, record.filtered_groups, record.samples) for record in trace] == [(0, 12, 0)] * 2
    assert [(record.optimizer_steps, record.policy_version, record.vllm_kl) for record in trace] == [(0, 0, None)] * 2
    assert all(len(record.lengths) == 12 for record in trace)
    assert not list((tmp_path / "run").glob("update*"))
    assert 0 in [row for record in trace for row in record.prompt_index]
    assert "counts as wrong: TimeoutError" in (tmp_path / "run" / "log").read_text()


def train_command(run: RunConfig, folder: Path, model: Path, data: Path) -> list[str]:
    paths = ["--model-path", str(model), "--data", str(data)]
    return [sys.executable, "-m", "sagc.cli", "train", str(folder), "--resolved", run.model_dump_json(), *paths]


def wait_until(holds, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def steps_done(folder: Path) -> int:
    trace = folder / "trace.jsonl"
    return len(trace.read_bytes().splitlines()) if trace.exists() else 0


def test_a_killed_run_goes_on_where_its_checkpoint_stood(tmp_path, openrlhf, tiny_model, tiny_data):
    run = openrlhf("dapo", "sagc", steps=6, prompts_per_step=4, micro_batches=2, checkpoint_every=2)
    folder, data = tmp_path / "run", tiny_data / "train.jsonl"
    command = train_command(run, folder, tiny_model, data)
    before = ray_processes()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_until(lambda: (folder / ".lock-holder").exists() and process.poll() is None, seconds=60)
    second = subprocess.run(command, capture_output=True, text=True)  # two processes never share a folder
    assert second.returncode == 2 and "is in use by process" in second.stderr
    kill_at = random.Random(0).choice([3, 4, 5])
    wait_until(lambda: steps_done(folder) >= kill_at, seconds=240)
    process.kill()  # the launcher alone; its supervisor ends the others
    process.wait()
    wait_until(lambda: not ray_processes() - before, seconds=20)
    killed = list(read_trace(folder / "trace.jsonl"))
    assert kill_at <= len(killed) < 6

    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    trace = list(read_trace(folder / "trace.jsonl"))
    assert [record.step for record in trace] == [1, 2, 3, 4, 5, 6]
    kept = int(done.stderr.split("going on after step ")[1].split()[0])
    assert kept in (2, 4) and kept <= len(killed)
    assert trace[:kept] == killed[:kept]
    stream = PromptStream(len(read_prompts(data)), run.seeds["data"])
    for record in trace:
        assert sorted(record.prompt_index) == sorted(stream.take(len(record.prompt_index)))
    controller = run.build_controller()
    for record in trace:
        assert controller.group_size == record.group_size
        controller.step(record.lengths)
        assert controller.group_size == record.next_group_size
    assert [record.policy_version for record in trace] == list(range(6))
    assert AutoModelForCausalLM.from_pretrained(folder / "model").num_parameters() > 0
    assert not (folder / "checkpoints").exists()
    assert json.loads((folder / "config.json").read_text())["versions"]["openrlhf"] == "0.11.2"


def test_a_failed_start_says_why_and_leaves_nothing(tmp_path, openrlhf, tiny_model, tiny_data):
    run = openrlhf("grpo", 4)
    broken = tmp_path / "model"
    broken.mkdir()
    for file in tiny_model.iterdir():
        if file.suffix != ".safetensors":
            (broken / file.name).write_bytes(file.read_bytes())
    folder = tmp_path / "run"
    failed = subprocess.run(
        train_command(run, folder, broken, tiny_data / "train.jsonl"), capture_output=True, text=True
    )
    assert failed.returncode == 1
    assert "OpenRLHF ended with exit status 1" in failed.stderr and "openrlhf.log" in failed.stderr
    assert not (folder / "model").exists()
