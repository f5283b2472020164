"""openrlhf_patch.flags: a run in OpenRLHF's own flags, as OpenRLHF's own parser reads them, and what is refused."""

import argparse
import ast
import importlib.util
import math
from datetime import datetime
from pathlib import Path

import pytest

from openrlhf_patch.flags import build_flags, check_flags, decided_flags, micro_batch_size
from openrlhf_patch.preflight import upstream_flags
from sagc.config.grid import validate_grid
from sagc.errors import UserError

PROFILES = {
    "cpu": {"device": "cpu", "attention": "sdpa"},
    "two": {"device": "cpu", "attention": "sdpa", "actors": 2},
    "eight": {"device": "cuda", "actors": 8, "engines": 8, "colocate": True},
    "apart": {"device": "cuda", "actors": 4, "engines": 2, "tensor_parallel": 2},
}


@pytest.fixture
def resolve(raw_grid):
    """`resolve("dapo", 8, profile="two", steps=5)` -> RunConfig of the openrlhf stack."""

    def build(algorithm="dapo", group=8, profile="cpu", flags=None, kl_coef=0, **training):
        raw = raw_grid(algorithm, group, stack="openrlhf", **training)
        profiles = {name: {**values, "flags": flags or {}} for name, values in PROFILES.items()}
        raw["openrlhf"] = {"profile": profile, "profiles": profiles}
        for settings in raw["algorithms"].values():
            settings["kl_coef"] = kl_coef
        grid = validate_grid(raw)
        return grid.run(grid.cells()[0])

    return build


@pytest.fixture(scope="module")
def parser():
    """The parser of openrlhf.cli.train_ppo_ray, taken out of its main block."""
    (package,) = importlib.util.find_spec("openrlhf").submodule_search_locations
    tree = ast.parse((Path(package) / "cli" / "train_ppo_ray.py").read_text())
    main = next(node for node in tree.body if isinstance(node, ast.If)).body
    end = next(i for i, node in enumerate(main) if "parse_args" in ast.unparse(node))
    names = {"argparse": argparse, "datetime": datetime}
    exec(compile(ast.Module(main[:end], []), "train_ppo_ray", "exec"), names)
    return names["parser"]


def parse(parser, run, **options):
    paths = {"model": "/m", "data": Path("/d.jsonl"), "checkpoints": Path("/c"), "output": Path("/o")}
    flags = build_flags(run, **paths, **{"prompt_tokens": 7, "chat": False, "seed": 3, **options})
    return vars(parser.parse_args(flags))


def test_the_names_of_all_flags_are_read_from_the_source(parser):
    assert upstream_flags() == {name.removeprefix("--") for name in parser._option_string_actions} - {"help", "-h"}


def test_dapo_in_openrlhfs_flags(resolve, parser):
    args = parse(parser, resolve("dapo", 8, steps=5, prompts_per_step=4, max_response_tokens=60))
    assert args["algo.advantage.estimator"] == "group_norm"
    assert args["actor.loss_agg_mode"] == "token-mean"
    assert args["actor.eps_clip_low_high"] == [0.2, 0.28]
    assert args["algo.dynamic_filtering_enable"] and args["algo.dynamic_filtering_range"] == (0, 1)
    assert (args["reward.overlong_buffer_len"], args["reward.overlong_penalty_factor"]) == (15.0, 1.0)
    assert (args["rollout.max_new_tokens"], args["data.max_len"]) == (60, 67)
    assert args["algo.kl.init_coef"] == 0 and not args["algo.kl.use_loss"]
    assert args["train.seed"] == 3


def test_grpo_with_a_kl_term_in_openrlhfs_flags(resolve, parser):
    args = parse(parser, resolve("grpo", 8, kl_coef=0.1))
    assert args["actor.loss_agg_mode"] == "seq-mean-token-mean"
    assert (args["algo.kl.init_coef"], args["algo.kl.use_loss"], args["algo.kl.estimator"]) == (0.1, True, "k3")
    assert args["train.colocate_actor_ref"]
    assert not args["algo.dynamic_filtering_enable"] and args["reward.overlong_buffer_len"] is None


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("size", [4, 6, 8, 12, 16])
def test_the_number_of_micro_batches_is_the_same_at_every_size(resolve, parser, profile, size):
    run = resolve("grpo", size, profile, prompts_per_step=32, micro_batches=4, optimizer_steps=2)
    args = parse(parser, run)
    processes = args["actor.num_nodes"] * args["actor.num_gpus_per_node"]
    accumulation = args["train.batch_size"] / args["train.micro_batch_size"] / processes
    updates = args["rollout.batch_size"] * size / args["train.batch_size"]
    assert (accumulation, updates) == (4, 2)
    assert args["train.micro_batch_size"] == args["rollout.micro_batch_size"] == micro_batch_size(run, size)


@pytest.mark.parametrize(("warmup", "steps"), [(0, 60), (1, 3), (7, 60), (29, 97), (60, 60)])
def test_warmup_is_exactly_as_many_steps_as_the_config_says(resolve, parser, warmup, steps):
    args = parse(parser, resolve("grpo", 8, steps=steps, warmup_steps=warmup))
    assert math.ceil(steps * args["actor.lr_warmup_ratio"]) == warmup  # as openrlhf/utils/deepspeed/deepspeed.py
    assert args["actor.lr_scheduler"] == ("constant_with_warmup" if warmup else "constant")


def test_colocated_models_sleep_in_turn(resolve, parser):
    args = parse(parser, resolve("grpo", 8, "eight", prompts_per_step=16))
    assert args["train.colocate_all"] and args["vllm.enable_sleep"] and args["ds.enable_sleep"]
    assert (args["vllm.num_engines"], args["actor.num_gpus_per_node"], args["vllm.sync_backend"]) == (8, 8, "nccl")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"train.async_enable": True}, "refused: the asynchronous trainer trains on responses of an older policy"),
        ({"train.partial_rollout_enable": True}, "refused: it needs the asynchronous trainer"),
        ({"train.dynamic_batch_enable": True}, "with DeepSpeed 0.19.6 and ZeRO stage 2 only the last micro batch's"),
        ({"rollout.vllm_generate_batch_size": 8}, "refused: responses left over"),
        ({"logger.wandb.key": "secret"}, "refused: keys are never written down"),
        ({"logger.tensorboard_dir": "x"}, "is not about the machine"),
        ({"ds.ring_attn_size": 2}, "refused: processes that share a sequence"),
        ({"ds.lora.rank": 8}, "refused: adapter weights"),
        ({"train.batch_size": 8}, "'train.batch_size' follows from the run's config; change it there"),
        ({"algo.dynamic_filtering_enable": True}, "follows from the run's config"),
        ({"reward.clip_range": 3}, "'reward.clip_range' is not about the machine; a profile may set ds., vllm."),
        ({"ds.packing_samples": True}, "needs flash attention, which device: cpu lacks"),
        ({"ds.zero": 3}, "'ds.zero' is no flag of OpenRLHF's train_ppo_ray"),
    ],
)
def test_flags_that_would_train_wrongly_are_refused_with_their_reason(resolve, flags, sentence):
    with pytest.raises(UserError) as caught:
        check_flags(resolve("grpo", 8, flags=flags), upstream_flags())
    assert sentence in str(caught.value)


def test_flags_about_the_machine_are_passed_on(resolve, parser):
    run = resolve("grpo", 8, "eight", {"ds.adam_offload": True, "ds.overlap_comm": False}, prompts_per_step=16)
    check_flags(run, upstream_flags())
    args = parse(parser, run)
    assert args["ds.adam_offload"] and not args["ds.overlap_comm"]


def test_dynamic_batches_pass_where_deepspeed_sums_their_gradients(resolve):
    run = resolve("grpo", 8, "eight", {"train.dynamic_batch_enable": True}, prompts_per_step=16)
    zero3 = run.model_copy(update={"openrlhf": run.openrlhf.model_copy(update={"zero_stage": 3})})
    check_flags(zero3, upstream_flags())
    with pytest.raises(UserError, match="ZeRO stage 2"):
        check_flags(run, upstream_flags())


def test_every_decided_flag_is_one_of_openrlhfs(resolve):
    for algorithm in ("grpo", "dapo"):
        for kl_coef in (0, 0.1):
            assert set(decided_flags(resolve(algorithm, 8, kl_coef=kl_coef))) <= upstream_flags()


def test_a_ladder_size_that_the_processes_cannot_share_is_refused(resolve):
    with pytest.raises(UserError) as caught:
        resolve("grpo", "sagc-robust", "two", prompts_per_step=2, micro_batches=4)
    assert str(caught.value).endswith(
        "training.optimizer_steps x training.micro_batches is 4, which x 2 processes does not divide the 12 responses "
        "at group size 6"
    )
