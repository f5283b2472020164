"""The openrlhf stack: the real OpenRLHF, Ray, DeepSpeed and vLLM, on embedded models. Every run takes about a minute to
start, so a test asks of a run all that it can tell."""

import contextlib
import ipaddress
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from openrlhf_patch.flags import build_flags
from openrlhf_patch.job import Spec
from openrlhf_patch.launch import environment
from openrlhf_patch.preflight import measure_prompts
from openrlhf_patch.processes import run_to_end
from sagc.config.run import RunConfig
from sagc.data.prompts import read_prompts
from sagc.data.stream import PromptStream
from sagc.errors import UserError
from sagc.run.folder import RunFolder
from sagc.tiny.models import build_model
from sagc.tiny.tokenizer import build_tokenizer
from sagc.trace import read_trace
from tests.limits import wait_until
from tests.marks import Mark, command_of

# Upstream caps a token's k3 at 10, and its gradient is 0 beyond: where the reference's log-probability is 2.6 above the
# policy's. A token near that would be in the gradient of one of two roundings and not in the other's.
FAR_BELOW_THE_CAP = 2.4
SCRIPTED = Path(__file__).with_name("openrlhf_scripted.py")


@pytest.fixture
def openrlhf(resolve):
    """`openrlhf("dapo", 4, actors=2, steps=3)` -> RunConfig of the openrlhf stack on CPUs."""

    def build(
        algorithm="dapo",
        group=4,
        actors=1,
        zero_stage=2,
        kl_coef=0.0,
        reward="tiny",
        reference_samples=None,
        **training,
    ) -> RunConfig:
        run = resolve(algorithm, group, **training).model_dump(mode="json")
        run["cell"]["stack"], run["reward"] = "openrlhf", reward
        run["algorithm"] |= {"kl_coef": kl_coef, "reference_samples": reference_samples}
        run["openrlhf"] = {"device": "cpu", "attention": "sdpa", "actors": actors, "zero_stage": zero_stage}
        return RunConfig.model_validate(run)

    return build


@pytest.fixture(autouse=True)
def nothing_left_behind(mark):
    yield
    assert not (left := mark.processes()), [command_of(process) for process in left]


def run_scripted(run, folder, model, data, sizes, *options) -> list:
    """Train with a scripted group size; returns the trace."""
    folder.mkdir(exist_ok=True)
    prompts = measure_prompts(run, str(model), read_prompts(data))
    paths = {"model": str(model), "data": data, "checkpoints": folder / "checkpoints", "output": folder / "model"}
    flags = build_flags(run, **paths, prompt_tokens=prompts.tokens, chat=prompts.chat, seed=1)
    with tempfile.TemporaryDirectory(prefix="sagc-") as scratch:
        trace, kept = str(folder / "trace.jsonl"), str(folder / "kept")
        spec = Spec(run.model_dump(mode="json"), flags, str(data), trace, kept, scratch)
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


def reference_gradient(
    model: Path, run: RunConfig, seen: list[dict], kl_coef: float | None = None
) -> dict[str, torch.Tensor]:
    """The gradient of one update in plain torch: sample by sample, in bfloat16 as the policy, summed in float32."""
    kl_coef = run.algorithm.kl_coef if kl_coef is None else kl_coef
    net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, attn_implementation="sdpa")
    net.load_state_dict(seen[0]["weights"], strict=False)
    total = {name: torch.zeros(parameter.shape) for name, parameter in net.named_parameters()}
    samples = [sample for rank in seen for sample in rank["samples"] if sample["action_mask"].any()]
    tokens = sum(int(sample["action_mask"].sum()) for sample in samples)
    low, high = 1 - run.algorithm.clip_low, 1 + run.algorithm.clip_high
    for sample in samples:
        mask, old = sample["action_mask"].float(), sample["action_log_probs"].float()
        new, advantage = log_probabilities(net, sample), sample["advantages"].float()
        new = new - new.detach() + old * mask  # the policy's own values: no rounding of another batch's shape
        ratio = (new - old).exp()
        surrogate = torch.min(ratio * advantage, ratio.clamp(low, high) * advantage)
        correction = (old - sample["rollout_log_probs"].float()).exp()  # of vLLM's rounding: OpenRLHF's "token" level
        correction = torch.where((correction >= 0.5) & (correction <= 5.0), correction, 0.0)
        loss = -correction * surrogate
        if kl_coef:
            below = (sample["base_action_log_probs"].float() - new) * mask
            assert below.max() < FAR_BELOW_THE_CAP
            loss = loss + kl_coef * (below.exp() - 1 - below)  # k3
        share = 1 / tokens if run.algorithm.loss == "dapo" else 1 / (mask.sum() * len(samples))
        net.zero_grad()
        ((loss * mask).sum() * share).backward()
        for name, parameter in net.named_parameters():
            total[name] += parameter.grad.float()
    return total


def compare(found: dict, expected: dict) -> tuple[float, float]:
    """Cosine of two gradients, and the ratio of their lengths."""
    names = sorted(expected)
    assert sorted(name for name, gradient in found.items() if gradient is not None) == names
    a = torch.cat([found[name].float().flatten() for name in names])
    b = torch.cat([expected[name].flatten() for name in names])
    return torch.nn.functional.cosine_similarity(a, b, dim=0).item(), (a.norm() / b.norm()).item()


def assert_same_gradient(found: dict, expected: dict) -> None:
    """Within the rounding of bfloat16, in direction and length."""
    cosine, ratio = compare(found, expected)
    assert cosine > 0.999
    assert 0.99 < ratio < 1.01


def typical_step(seen: dict, after: dict) -> float:
    """How far an update moved a weight. Adam's first moves every one by the learning rate; bfloat16 shows it of small
    weights only."""
    moved = []
    for name, gradient in seen["gradients"].items():
        weight = seen["weights"][name]
        clear = (gradient.abs() > 1e-6) & (weight.abs() < 1e-3)
        moved.append((after["weights"][name].float() - weight.float()).abs()[clear])
    return torch.cat(moved).median().item()


@pytest.mark.parametrize(("algorithm", "actors"), [("grpo", 1), ("dapo", 2)])
def test_the_group_size_changes_between_steps_and_vllm_has_the_new_weights(
    tmp_path, openrlhf, tiny_model, tiny_data, algorithm, actors
):
    """Numbers of samples and updates, gradients against plain torch, weight sync.

    One arm holds the samples fixed and has a KL term, the other holds the prompts fixed, has two gloo processes, a
    learning rate that follows the samples, and keeps its models.
    """
    grpo = algorithm == "grpo"
    held = {"hold": "samples", "samples_per_step": 96} if grpo else {"prompts_per_step": 16}
    learning = {"kl_coef": 4.0, "learning_rate": 2e-4} if grpo else {"learning_rate": 1e-4}
    learning |= {} if grpo else {"reference_samples": 16, "keep_model_every": 1}
    run = openrlhf(algorithm, 4, actors, steps=3, micro_batches=2, **learning, **held)
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
        assert min(record.rollout_s, record.train_s, record.sync_s, record.processor_s) > 0
        assert_same_gradient(ranks[0]["gradients"], reference_gradient(tiny_model, run, ranks))
        if grpo and record.step > 1:  # before, the policy is the reference
            cosine, _ = compare(ranks[0]["gradients"], reference_gradient(tiny_model, run, ranks, kl_coef=0.0))
            assert cosine < 0.9
    scales = [1.0 if grpo else (record.samples / 16) ** 0.5 for record in trace]
    rates = [run.training.learning_rate * scale for scale in scales]
    assert [record.learning_rate for record in trace] == pytest.approx(rates)
    assert typical_step(*(ranks[0] for ranks in seen[:2])) == pytest.approx(rates[0], rel=0.05)
    kept = {int(path.name): load_file(path / "model.safetensors") for path in (tmp_path / "kept").glob("*")}
    assert kept.keys() == (set() if grpo else {1, 2}), "the last one is the run's model"
    for step, weights in kept.items():
        assert all(torch.equal(weights[name], value) for name, value in seen[step][0]["weights"].items())
    rows = [row for record in trace for row in record.prompt_index]
    drawn = PromptStream(len(read_prompts(tiny_data / "train.jsonl")), run.seeds["data"]).take(len(rows))
    assert rows == drawn if algorithm == "grpo" else sorted(rows) == sorted(drawn)


def test_the_last_two_checkpoints_are_kept_though_the_clock_is_set_back(tmp_path, openrlhf, tiny_model, tiny_data):
    """Upstream goes by time stamps, and would have removed the second when it wrote the third."""
    run = openrlhf("grpo", 2, steps=3, prompts_per_step=4, checkpoint_every=1)
    run_scripted(run, tmp_path, tiny_model, tiny_data / "train.jsonl", "2", "--clock-back")
    left = tmp_path.glob("checkpoints/_actor/global_step*")
    assert sorted(path.name for path in left) == ["global_step2", "global_step3"]


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
    paths = ["--model", str(model), "--data", str(data), "--logging", '{"tensorboard": true}']
    return [sys.executable, "-m", "sagc.cli", "train-job", str(folder), "--resolved", run.model_dump_json(), *paths]


def steps_done(folder: Path) -> int:
    trace = folder / "trace.jsonl"
    return len(trace.read_bytes().splitlines()) if trace.exists() else 0


def kill_launcher(process: subprocess.Popen) -> None:
    """The launcher alone: its supervisor ends the others."""
    process.kill()


def kill_everything(process: subprocess.Popen) -> None:
    """Launcher, supervisor, driver and all below them, in any order: nobody is left to end what they leave."""
    tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    random.SystemRandom().shuffle(tree)
    for each in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


def run_until_killed(command: list[str], folder: Path, at_step: int, kill, mark: Mark) -> list:
    """Start a run and kill it once a step is done; the trace that it leaves."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_until(lambda: steps_done(folder) >= at_step or process.poll() is not None, seconds=240)
    kill(process)
    process.wait()
    wait_until(lambda: not mark.processes(), seconds=20)
    return list(read_trace(folder / "trace.jsonl"))


def test_a_killed_run_goes_on_where_its_checkpoint_stood(tmp_path, openrlhf, tiny_model, tiny_data, read_events, mark):
    """Killed twice, at steps that differ from test to test: first the launcher alone, then the whole process tree."""
    steps = 8
    run = openrlhf("dapo", "sagc", steps=steps, prompts_per_step=4, micro_batches=2, checkpoint_every=2)
    folder, data = tmp_path / "run", tiny_data / "train.jsonl"
    command = train_command(run, folder, tiny_model, data)

    killed, kept = [], 0
    for last, kill in ((4, kill_launcher), (steps - 1, kill_everything)):
        at_step = random.SystemRandom().randint(len(killed) + 1, last)
        print(f"{kill.__name__} at step {at_step}")
        trace = run_until_killed(command, folder, at_step, kill, mark)
        assert at_step <= len(trace) < steps
        assert [record.step for record in trace] == list(range(1, len(trace) + 1))
        assert trace[:kept] == killed[:kept]
        killed, kept = trace, (len(trace) - 1) // 2 * 2  # at least: a checkpoint of its last step may be half written
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    trace = list(read_trace(folder / "trace.jsonl"))
    said = re.search(r"going on after step (\d+)", done.stderr)
    assert (int(said[1]) if said else 0) in (kept, len(killed) // 2 * 2)
    assert trace[:kept] == killed[:kept]

    assert [record.step for record in trace] == list(range(1, steps + 1))
    shown = read_events(folder / "tensorboard")  # each step once, though some were done again
    assert {step: values["rollout/tokens"] for step, values in shown.items()} == {r.step: [r.tokens] for r in trace}
    assert {step: values["time/step_s"] for step, values in shown.items()} == {
        record.step: [pytest.approx(record.step_s, rel=1e-6)] for record in trace
    }
    stream = PromptStream(len(read_prompts(data)), run.seeds["data"])
    for record in trace:
        assert sorted(record.prompt_index) == sorted(stream.take(len(record.prompt_index)))
    controller = run.build_controller()
    for record in trace:
        assert controller.group_size == record.group_size
        controller.step(record.lengths)
        assert controller.group_size == record.next_group_size
    assert [record.policy_version for record in trace] == list(range(steps))
    assert AutoModelForCausalLM.from_pretrained(folder / "model").num_parameters() > 0
    assert not (folder / "checkpoints").exists()
    assert json.loads((folder / "config.json").read_text())["versions"]["openrlhf"] == "0.11.2"


@pytest.fixture
def other_ray(tmp_path_factory):
    """The address of a Ray session of somebody else, on Ray's usual port where that is free."""
    ray = str(Path(sys.executable).with_name("ray"))
    options = ["--num-cpus=1", "--include-dashboard=false", "--disable-usage-stats"]
    with tempfile.TemporaryDirectory(prefix="ray-") as folder, socket.socket() as probe:
        port = 6379
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        probe.close()
        command = [ray, "start", "--head", "--block", f"--port={port}", f"--temp-dir={folder}", *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: answers(port), seconds=60)
            yield f"127.0.0.1:{port}"
            assert process.poll() is None
        finally:
            kill_everything(process)
            process.wait()


def answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


@pytest.fixture
def temporary_folder(monkeypatch):
    """A folder of this test's own for temporary files; its path is short, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def listening(process: subprocess.Popen) -> set[tuple[str, str]]:
    """(address, name) of the sockets that it and its descendants take connections on."""
    found = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                name = each.name()
                found |= {(s.laddr.ip, name) for s in each.net_connections("inet") if s.status == psutil.CONN_LISTEN}
    return found


def test_a_run_starts_beside_a_ray_session_in_use(
    tmp_path, openrlhf, tiny_model, tiny_data, mark, other_ray, temporary_folder
):
    """It takes free ports of the loopback interface, leaves the other session alone, and shares its folder with no
    second run. It leaves no temporary files."""
    run = openrlhf("grpo", 4, steps=1)
    folder, others, own = tmp_path / "run", mark.processes(), Mark()
    command = train_command(run, folder, tiny_model, tiny_data / "train.jsonl")
    variables = {**os.environ, **own.environment, "RAY_ADDRESS": other_ray}
    process = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (folder / ".lock-holder").exists() and process.poll() is None, seconds=60)
    with pytest.raises(UserError, match=f"is in use by process {process.pid}"), RunFolder(folder).lock():
        pass
    sockets = set()
    wait_until(lambda: sockets.update(listening(process)) or process.poll() is not None, seconds=240)
    assert process.wait() == 0, process.stderr.read()
    assert {"raylet", "gcs_server"} <= {name for _, name in sockets}
    open_to_all = {each for each in sockets if not ipaddress.ip_address(each[0].removeprefix("::ffff:")).is_loopback}
    # PyTorch's store, in the processes that train, has no address to be told.
    assert all(address == "::" and name.startswith("ray:") for address, name in open_to_all), open_to_all
    assert len(list(read_trace(folder / "trace.jsonl"))) == 1
    assert others and others <= mark.processes()
    assert own.processes() == set()
    assert list(temporary_folder.iterdir()) == []
    assert answers(int(other_ray.rpartition(":")[2]))


def test_a_failed_start_says_why_and_leaves_nothing(tmp_path, openrlhf, tiny_model, tiny_data):
    run = openrlhf("grpo", 4)
    broken, folder = shutil.copytree(tiny_model, tmp_path / "model"), tmp_path / "run"
    os.truncate(broken / "model.safetensors", 1000)
    failed = subprocess.run(
        train_command(run, folder, broken, tiny_data / "train.jsonl"), capture_output=True, text=True
    )
    assert failed.returncode == 1
    assert "OpenRLHF ended with exit status 1" in failed.stderr and "openrlhf.log" in failed.stderr
    assert not (folder / "model").exists()


def test_an_engine_that_dies_before_the_first_rollout_ends_the_run_and_is_its_error(
    tmp_path, openrlhf, tiny_model, tiny_data, mark
):
    """The policy then waits for it, and would for five minutes. The command is as in the background of a script,
    where SIGINT is ignored."""
    folder = tmp_path / "run"
    command = train_command(openrlhf("grpo", 4), folder, tiny_model, tiny_data / "train.jsonl")
    background = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **background)

    def kill_engines() -> bool:
        """Whether the run is over. One look may miss an engine, or find a child of it that is just ending."""
        for process_ in mark.processes():
            if any("VLLM::" in word for word in command_of(process_)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process_.kill()
        return process.poll() is not None

    wait_until(kill_engines, seconds=480)
    _, said = process.communicate()
    assert process.returncode == 1
    assert "OpenRLHF ended with exit status 1: " in said and "EngineDiedError: a vLLM engine died: " in said
    assert not (folder / "model").exists()
