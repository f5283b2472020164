"""The vanilla stack's trainer against the stock one, plain torch and hand-counted groups, on a random tiny model."""

import copy
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from sagc import SAGC, GroupSizeController, StaticGroupSize
from sagc.controllers.protocol import ControllerStatus
from sagc.logs import read_log
from sagc.tiny.tokenizer import build_tokenizer
from sagc.trl import SagcGRPOTrainer

LIMIT = 12


class Scripted(GroupSizeController):
    """Plays given sizes one after another and remembers the lengths that it was shown."""

    type = "scripted"

    def __init__(self, *sizes):
        super().__init__(tuple(sorted(set(sizes))), sizes[0], tau=2.0, event="group")
        self.sizes, self.seen = sizes, []

    def status(self):
        return ControllerStatus()

    def _next_size(self, rollout, report):
        return self.sizes[min(self.steps + 1, len(self.sizes) - 1)]

    def step(self, lengths):
        self.seen.append(lengths)
        return super().step(lengths)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


@pytest.fixture
def model(tokenizer):
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(config).float()


def prompts(count):
    return Dataset.from_dict(
        {"prompt": [f"{2 + i % 7}x +{i % 10} = {10 + i % 40} :" for i in range(count)], "row": range(count)}
    )


def config(folder, group=4, count=4, parts=1, accumulate=None, **changes):
    settings = dict(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        num_generations=group,
        per_device_train_batch_size=count * group // parts,
        steps_per_generation=parts,
        gradient_accumulation_steps=accumulate or parts,
        max_completion_length=LIMIT,
        max_steps=1,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        loss_type="grpo",
        seed=3,
    )
    return GRPOConfig(**{**settings, **changes})


def by_length(completions, **columns):
    return [float(len(text.split()) % 3) for text in completions]


def trainer_of(model, tokenizer, arguments, controller, data=None, reward=by_length, **options):
    return SagcGRPOTrainer(
        model,
        reward,
        args=arguments,
        train_dataset=prompts(40) if data is None else data,
        processing_class=tokenizer,
        controller=controller,
        **options,
    )


def weights(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def assert_close(one, other, tolerance=1e-6):
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def scripted_rollout(tokenizer, texts):
    """A rollout function that answers the i-th prompt of every call with the i-th of the given texts."""

    def rollout(batch, trainer):
        chosen = list(itertools.islice(itertools.cycle(texts), len(batch)))
        ids = [[*tokenizer(text).input_ids, tokenizer.eos_token_id] for text in chosen]
        return {"prompt_ids": [tokenizer(text).input_ids for text in batch], "completion_ids": ids, "logprobs": None}

    return rollout


TEXTS = ["1 2 3", "4 5 6 7 8", "9", "1 3 5 7", "2 4", "6 6 6 6 6 6", "7 8 9", "3"] * 2


# Group size ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2])
def test_each_rollout_has_the_group_size_that_the_controller_asks_for_then(tmp_path, model, tokenizer, parts):
    sizes, records, asked = (4, 8, 3 * parts, 12), [], []

    def reward(prompts, completions, row, **columns):
        asked.append((prompts, row))
        return by_length(completions)

    controller = Scripted(*sizes)
    arguments = config(tmp_path, parts=parts, accumulate=1, max_steps=4 * parts)
    trainer_of(model, tokenizer, arguments, controller, reward=reward, on_step=records.append).train()

    assert [record.group_size for record in records] == list(sizes)
    assert [record.optimizer_steps for record in records] == [parts] * 4
    assert [record.samples for record in records] == [4 * size for size in sizes]
    assert [[len(group) for group in record.lengths] for record in records] == [[size] * 4 for size in sizes]
    assert [record.lengths for record in records] == controller.seen
    for record, (texts, rows), size in zip(records, asked, sizes, strict=True):
        assert rows == [index for index in record.prompt_index for _ in range(size)]
        assert texts == [prompts(40)[index]["prompt"] for index in rows]
    drawn = [index for record in records for index in record.prompt_index]
    assert len(set(drawn)) == 16, "no prompt is drawn twice within an epoch"


def test_hold_samples_keeps_the_number_of_responses(tmp_path, model, tokenizer):
    records = []
    arguments = config(tmp_path, group=4, count=6, max_steps=3)
    trainer_of(model, tokenizer, arguments, Scripted(4, 8, 12), hold="samples", on_step=records.append).train()
    assert [(record.prompts, record.group_size, record.samples) for record in records] == [
        (6, 4, 24),
        (3, 8, 24),
        (2, 12, 24),
    ]


def test_five_prompts_with_four_per_step_lose_none(tmp_path, model, tokenizer):
    records = []
    arguments = config(tmp_path, max_steps=5)
    trainer_of(model, tokenizer, arguments, StaticGroupSize(4), data=prompts(5), on_step=records.append).train()
    drawn = [index for record in records for index in record.prompt_index]
    assert all(sorted(drawn[first : first + 5]) == list(range(5)) for first in range(0, 20, 5))


@pytest.mark.parametrize(
    ("options", "shape", "sentence"),
    [
        ({"hold": "samples"}, {"count": 7}, "not divisible by the group size 6"),
        ({}, {"count": 1, "parts": 4, "group": 8}, "not divisible by steps_per_generation = 4"),
        ({"hold": "both"}, {}, "allowed are 'prompts' and 'samples'"),
        ({"max_rounds": 0}, {}, "at least one round"),
        ({}, {"parts": 2, "accumulate": 4, "num_iterations": 2}, "never spans two rollouts"),
        ({}, {"count": 41}, "holds 40 prompts, fewer than the 41 of one rollout at group size 4"),
        (
            {"hold": "samples"},
            {"group": 8, "count": 30},
            "40 prompts, fewer than the 60 of one rollout at group size 4",
        ),
        ({"max_rounds": 2}, {"loss_type": "grpo"}, "only a mean over tokens allows for"),
        ({}, {"parts": 2, "accumulate": 1, "save_strategy": "steps", "save_steps": 3}, "never falls inside one"),
    ],
)
def test_shapes_that_would_lose_samples_are_refused(tmp_path, model, tokenizer, options, shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        trainer_of(model, tokenizer, config(tmp_path, **shape), Scripted(4, 8, 6), **options)


def test_a_streamed_dataset_is_refused(tmp_path, model, tokenizer):
    with pytest.raises(ValueError, match="can be indexed"):
        trainer_of(model, tokenizer, config(tmp_path), StaticGroupSize(4), data=prompts(8).to_iterable_dataset())


def test_the_learning_rate_horizon_does_not_depend_on_the_group_size(tmp_path, model, tokenizer):
    rates = []
    for sizes in ((4,), (4, 12, 8, 6)):
        records = []
        arguments = config(tmp_path, max_steps=4, lr_scheduler_type="linear")
        trainer_of(copy.deepcopy(model), tokenizer, arguments, Scripted(*sizes), on_step=records.append).train()
        rates.append([record.learning_rate for record in records])
    assert rates[0] == rates[1] == pytest.approx([1e-2, 7.5e-3, 5e-3, 2.5e-3])


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [("constant", [1.0] * 5), ("linear", [1.0, 0.75, 0.5, 0.25, 0.0]), ("halving", [1.0, 0.5, 0.25, 0.125, 0.0625])],
)
def test_the_learning_rate_follows_the_root_of_the_samples(tmp_path, model, tokenizer, schedule, rates):
    records, own = [], {}
    if schedule == "halving":  # goes on from the last rate, not from the first
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        own = {"optimizers": (optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5))}
    arguments = config(tmp_path, max_steps=4, **({} if own else {"lr_scheduler_type": schedule}))
    sizes = Scripted(4, 12, 8, 16)
    trainer = trainer_of(model, tokenizer, arguments, sizes, reference_samples=32, on_step=records.append, **own)
    trainer.train()
    assert [record.samples for record in records] == [16, 48, 32, 64]
    expected = [1e-2 * rate * (record.samples / 32) ** 0.5 for rate, record in zip(rates, records, strict=False)]
    assert [record.learning_rate for record in records] == pytest.approx(expected)
    left = [group["lr"] for group in trainer.optimizer.param_groups]
    assert left == pytest.approx([1e-2 * rates[4]] * len(left)), "the scale is not left in"


@pytest.mark.parametrize("parts", [1, 2])
def test_an_update_is_as_long_as_the_scaled_learning_rate_says(tmp_path, model, tokenizer, parts):
    """Plain SGD: four times the reference's samples, twice the step. With two updates per rollout each has half."""
    settings = {**SGD, "learning_rate": 1e-3, "parts": parts, "accumulate": 1}
    ends = []
    for reference in (None, 16 // parts // 4):
        learner = copy.deepcopy(model)
        trainer_of(
            learner, tokenizer, config(tmp_path, max_steps=parts, **settings), Scripted(4), reference_samples=reference
        ).train()
        ends.append(weights(learner))
    before, plain, scaled = weights(model), *ends
    moved = max((plain[name] - before[name]).abs().max() for name in before)
    assert moved > 0
    for name in before:  # the second of two updates starts elsewhere, by little
        assert torch.allclose(scaled[name] - before[name], 2 * (plain[name] - before[name]), atol=0.02 * float(moved))


def test_samples_that_are_used_twice_count_once_per_update(tmp_path, model, tokenizer):
    records = []
    arguments = config(tmp_path, max_steps=4, num_iterations=2)
    trainer_of(model, tokenizer, arguments, Scripted(4), reference_samples=4, on_step=records.append).train()
    assert [(record.optimizer_steps, record.learning_rate) for record in records] == [(2, pytest.approx(2e-2))] * 2


def test_a_learning_rate_for_no_samples_is_refused(tmp_path, model, tokenizer):
    with pytest.raises(ValueError, match="reference_samples is 0; it must be at least 1"):
        trainer_of(model, tokenizer, config(tmp_path), StaticGroupSize(4), reference_samples=0)


# Gradients -----------------------------------------------------------------------------------------------------------


SGD = {"optim": "sgd", "learning_rate": 1.0, "max_grad_norm": 0.0}  # the step is the gradient, unclipped


def by_position(completions, **columns):
    return [float(i % 2) for i in range(len(completions))]


def trained(tmp_path, model, tokenizer, trainer_class=SagcGRPOTrainer, group=4, count=4, reward=by_position, **changes):
    """Weights after one SGD step on the same 16 responses to one prompt, however they are grouped."""
    options = {"controller": StaticGroupSize(group)} if trainer_class is SagcGRPOTrainer else {}
    model = copy.deepcopy(model)
    data = Dataset.from_dict({"prompt": ["3x +2 = 20 :"] * max(count, 4)})
    trainer = trainer_class(
        model,
        reward,
        args=config(tmp_path, group=group, count=count, scale_rewards="none", **SGD, **changes),
        train_dataset=data,
        processing_class=tokenizer,
        rollout_func=scripted_rollout(tokenizer, TEXTS),
        **options,
    )
    trainer.train()
    return weights(model)


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_the_same_tokens_give_the_same_gradient_at_any_group_size(tmp_path, model, tokenizer, loss):
    four = trained(tmp_path, model, tokenizer, group=4, count=4, loss_type=loss)
    sixteen = trained(tmp_path, model, tokenizer, group=16, count=1, loss_type=loss)
    assert_close(four, sixteen)
    assert any((four[name] != value).any() for name, value in weights(model).items())


@pytest.mark.parametrize("loss", ["grpo", "dapo", "dr_grpo", "luspo", "cispo"])
def test_micro_batches_of_like_length_give_the_same_gradient(tmp_path, model, tokenizer, loss):
    whole = trained(tmp_path, model, tokenizer, loss_type=loss)
    split = trained(tmp_path, model, tokenizer, loss_type=loss, parts=4)
    assert_close(whole, split)


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_constant_group_size_trains_as_the_stock_trainer(tmp_path, model, tokenizer, loss, parts):
    ours = trained(tmp_path, model, tokenizer, loss_type=loss, parts=parts)
    stock = trained(tmp_path, model, tokenizer, trainer_class=GRPOTrainer, loss_type=loss, parts=parts)
    assert_close(ours, stock)


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_the_update_is_that_of_plain_torch(tmp_path, model, tokenizer, loss):
    trained_weights = trained(tmp_path, model, tokenizer, loss_type=loss)
    reference = copy.deepcopy(model).train()
    prompt = tokenizer("3x +2 = 20 :").input_ids
    terms, tokens = [], 0
    for i, text in enumerate(TEXTS):
        response = [*tokenizer(text).input_ids, tokenizer.eos_token_id]
        logits = reference(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
        chosen = logits.log_softmax(-1).gather(1, torch.tensor(response)[:, None])[:, 0]
        advantage = i % 2 - 0.5
        terms.append(-advantage * (chosen.mean() if loss == "grpo" else chosen.sum()))
        tokens += len(response)
    total = torch.stack(terms).sum() / (len(TEXTS) if loss == "grpo" else tokens)
    total.backward()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter -= parameter.grad
    assert_close(trained_weights, weights(reference), tolerance=1e-5)


@pytest.mark.parametrize(
    ("settings", "sorted_by_length"),
    [
        ({"loss_type": "dapo"}, True),
        ({"loss_type": "bnpo"}, False),
        ({"loss_type": "dapo", "entropy_coef": 0.01}, False),
        ({"loss_type": "dapo", "top_entropy_quantile": 0.5}, False),
    ],
)
def test_micro_batches_are_sorted_only_where_no_term_depends_on_the_split(
    tmp_path, model, tokenizer, settings, sorted_by_length
):
    widths = []

    class Spy(SagcGRPOTrainer):
        def _compute_loss(self, model, inputs):
            widths.append(inputs["completion_ids"].size(1))
            return super()._compute_loss(model, inputs)

    Spy(
        model,
        by_position,
        args=config(tmp_path, parts=4, **settings),
        train_dataset=prompts(8),
        processing_class=tokenizer,
        controller=StaticGroupSize(4),
        rollout_func=scripted_rollout(tokenizer, TEXTS),
    ).train()
    assert (len(set(widths)) > 1) == sorted_by_length
    assert max(widths) == 7


def test_rewards_that_differ_one_by_one_keep_their_advantages_where_each_is_normalised(tmp_path, model, tokenizer):
    seen = []

    class Spy(SagcGRPOTrainer):
        def _compute_loss(self, model, inputs):
            seen.append(inputs["advantages"])
            return super()._compute_loss(model, inputs)

    def one(completions, **columns):
        return [float(i % 2) for i in range(len(completions))]

    def other(completions, **columns):
        return [1.0 - i % 2 if i < 4 else 1.0 for i in range(len(completions))]

    Spy(
        model,
        [one, other],
        args=config(tmp_path, count=2, multi_objective_aggregation="normalize_then_sum"),
        train_dataset=prompts(8),
        processing_class=tokenizer,
        controller=StaticGroupSize(4),
    ).train()
    assert (seen[0] != 0).any()


def test_an_infinite_reward_is_an_error_that_says_so(tmp_path, model, tokenizer):
    def reward(completions, **columns):
        return [float("inf")] * len(completions)

    with pytest.raises(ValueError, match="a reward function returned an infinite reward"):
        trainer_of(model, tokenizer, config(tmp_path), StaticGroupSize(4), reward=reward).train()


@pytest.mark.parametrize("size", [6, 12])
def test_equal_rewards_give_advantages_of_exactly_zero(tmp_path, model, tokenizer, size):
    seen = []

    class Spy(SagcGRPOTrainer):
        def _compute_loss(self, model, inputs):
            seen.append(inputs["advantages"])
            return super()._compute_loss(model, inputs)

    Spy(
        model,
        lambda completions, **columns: [0.3] * len(completions),
        args=config(tmp_path, group=size, count=2),
        train_dataset=prompts(8),
        processing_class=tokenizer,
        controller=StaticGroupSize(size),
    ).train()
    assert seen and all((advantages == 0).all() for advantages in seen)


# Lengths -------------------------------------------------------------------------------------------------------------


def test_a_truncated_response_counts_with_its_length_though_its_loss_is_masked(tmp_path, model, tokenizer):
    def endless(batch, trainer):
        ids = [
            [9] * (LIMIT if i % 4 == 0 else 2) + ([] if i % 4 == 0 else [tokenizer.eos_token_id])
            for i in range(len(batch))
        ]
        return {"prompt_ids": [tokenizer(text).input_ids for text in batch], "completion_ids": ids, "logprobs": None}

    controller, records = Scripted(4), []
    trainer_of(
        model,
        tokenizer,
        config(tmp_path, mask_truncated_completions=True),
        controller,
        rollout_func=endless,
        on_step=records.append,
    ).train()
    assert controller.seen == [[[LIMIT, 3, 3, 3]] * 4]
    assert records[0].truncated == 4
    assert records[0].tokens == 4 * (LIMIT + 9)
    assert records[0].idle_fraction == pytest.approx(1 - (LIMIT + 9) / (4 * LIMIT))


# Dynamic sampling ----------------------------------------------------------------------------------------------------


def by_row(informative):
    """Rewards that differ within a group only for the given rows of the data."""

    def reward(completions, row, **columns):
        return [float(i % 2) if informative(index) else 0.0 for i, index in enumerate(row)]

    return reward


def test_accepted_groups_survive_when_replacements_run_out(tmp_path, model, tokenizer):
    records, before = [], weights(model)
    arguments = config(tmp_path, count=3, shuffle_dataset=False, loss_type="dapo")
    trainer_of(
        model,
        tokenizer,
        arguments,
        Scripted(4),
        reward=by_row(lambda row: row in (0, 2)),
        max_rounds=3,
        on_step=records.append,
    ).train()
    (record,) = records
    assert record.prompt_index == [0, 1, 2, 3, 4]
    assert record.rounds == [3, 1, 1]
    assert (record.kept_groups, record.filtered_groups, record.samples) == (2, 3, 8)
    assert len(record.lengths) == len(record.rewards) == 5
    assert record.optimizer_steps == 1
    assert any((before[name] != value).any() for name, value in weights(model).items())


def test_a_filtered_group_is_replaced_by_the_next_prompt(tmp_path, model, tokenizer):
    records = []
    arguments = config(tmp_path, count=3, shuffle_dataset=False, loss_type="dapo", max_steps=2)
    reward = by_row(lambda row: row != 1)
    trainer_of(model, tokenizer, arguments, Scripted(4), reward=reward, max_rounds=3, on_step=records.append).train()
    assert [record.prompt_index for record in records] == [[0, 1, 2, 3], [4, 5, 6]]
    assert [record.kept_groups for record in records] == [3, 3]


def test_rewards_that_are_always_equal_end_after_max_rounds_and_leave_the_policy_alone(tmp_path, model, tokenizer):
    records, snapshots = [], []
    informative = iter([True, False])

    def reward(completions, **columns):
        keep = next(informative, False)
        return [float(i % 2) if keep else 0.0 for i in range(len(completions))]

    def on_step(record):
        records.append(record)
        snapshots.append(weights(model))

    arguments = config(tmp_path, loss_type="dapo", max_steps=4)
    trainer_of(model, tokenizer, arguments, Scripted(4), reward=reward, max_rounds=2, on_step=on_step).train()
    assert [len(record.rounds) for record in records] == [1, 2, 2, 2]
    assert [(record.kept_groups, record.optimizer_steps) for record in records] == [(4, 1), (0, 0), (0, 0), (0, 0)]
    assert [record.policy_version for record in records] == [0, 1, 1, 1], "a step without an update is no new policy"
    for name, value in snapshots[0].items():  # the first step's momentum must not move it afterwards
        assert torch.equal(value, snapshots[2][name])
        assert torch.isfinite(value).all()


def test_the_policy_version_goes_on_after_a_checkpoint_and_counts_no_step_without_an_update(tmp_path, model, tokenizer):
    records = []
    keep = iter([True, False, False, True, True])

    def reward(completions, **columns):
        kept = next(keep)
        return [float(kept and i % 2 == 1) for i in range(len(completions))]

    options = {"loss_type": "dapo", "save_strategy": "steps", "save_steps": 1}
    for steps, checkpoint in ((3, None), (5, str(tmp_path / "checkpoint-3"))):
        trainer = trainer_of(
            model,
            tokenizer,
            config(tmp_path, max_steps=steps, **options),
            Scripted(4),
            reward=reward,
            max_rounds=1,
            on_step=records.append,
        )
        trainer.train(resume_from_checkpoint=checkpoint)
    assert [record.optimizer_steps for record in records] == [1, 0, 0, 1, 1]
    assert [record.policy_version for record in records] == [0, 1, 1, 1, 2]


def test_a_length_penalty_does_not_make_a_group_informative(tmp_path, model, tokenizer):
    records = []

    def outcome(completions, **columns):
        return [1.0] * len(completions)

    def penalty(completion_ids, **columns):
        return [-float(i) for i, ids in enumerate(completion_ids)]

    trainer_of(
        model,
        tokenizer,
        config(tmp_path, loss_type="dapo"),
        Scripted(4),
        reward=[outcome, penalty],
        max_rounds=2,
        on_step=records.append,
    ).train()
    assert records[0].kept_groups == 0
    assert records[0].reward == 1.0


def test_a_remainder_of_groups_that_does_not_divide_is_filled_with_rows_that_do_not_count(tmp_path, model, tokenizer):
    """2 kept groups of 3 in 4 micro batches: the gradient is that of one micro batch."""
    results = []
    for parts in (1, 4):
        trained_model = copy.deepcopy(model)
        trainer_of(
            trained_model,
            tokenizer,
            config(tmp_path, group=3, count=4, parts=parts, loss_type="dapo", shuffle_dataset=False, **SGD),
            StaticGroupSize(3),
            reward=by_row(lambda row: row in (0, 2)),
            rollout_func=scripted_rollout(tokenizer, TEXTS[:6]),
            max_rounds=1,
        ).train()
        results.append(weights(trained_model))
    assert_close(*results)


# Checkpoints ---------------------------------------------------------------------------------------------------------


def facts(record):
    """A record without its clock."""
    values = {name: value for name, value in vars(record).items() if not name.endswith("_s")}
    return values


@pytest.mark.parametrize("max_rounds", [None, 2])
@pytest.mark.parametrize("checkpoint", [2, 3])
def test_a_resumed_run_gives_the_trace_of_an_unbroken_one(tmp_path, model, tokenizer, checkpoint, max_rounds):
    """With 12 prompts and 4 per step, step 3 ends an epoch."""

    def run(folder, resume=None):
        records = []
        trainer = trainer_of(
            copy.deepcopy(model),
            tokenizer,
            config(folder, max_steps=5, save_strategy="steps", save_steps=checkpoint, loss_type="dapo"),
            SAGC(ladder=(4, 6, 8), start=6, seed=1),
            data=prompts(12),
            max_rounds=max_rounds,
            reference_samples=max_rounds and 32,
            on_step=records.append,
        )
        trainer.train(resume_from_checkpoint=resume)
        return [facts(record) for record in records], weights(trainer.model)

    unbroken, end = run(tmp_path / "a")
    resumed, end_resumed = run(tmp_path / "b", resume=str(tmp_path / "a" / f"checkpoint-{checkpoint}"))
    assert resumed == unbroken[checkpoint:]
    assert all(torch.equal(end[name], end_resumed[name]) for name in end)


def test_the_last_two_checkpoints_are_kept_though_the_clock_is_set_back(tmp_path, model, tokenizer):
    """The stock trainer goes by time stamps, and would have removed the new one before it was complete."""

    def set_back(record):
        for path in tmp_path.glob("checkpoint-*"):
            later = path.stat().st_mtime + 3600
            os.utime(path, (later, later))

    arguments = config(tmp_path, max_steps=4, save_strategy="steps", save_steps=1, save_total_limit=2)
    trainer_of(model, tokenizer, arguments, StaticGroupSize(4), on_step=set_back).train()
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == ["checkpoint-3", "checkpoint-4"]
    assert all((tmp_path / name / "sagc_state.json").exists() for name in ("checkpoint-3", "checkpoint-4"))


def test_two_processes_train_as_one(tmp_path):
    """Same groups, same controller decisions and same weights under accelerate with two processes over gloo."""
    results = {}
    for processes in (1, 2):
        out = tmp_path / f"{processes}.json"
        script = Path(__file__).with_name("two_processes.py")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        environment = {
            **os.environ,
            "ACCELERATE_USE_CPU": "true",
            "OMP_NUM_THREADS": "1",
            "TRL_EXPERIMENTAL_SILENCE": "1",
        }
        done = subprocess.run([*command, str(script), str(out)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        results[processes] = json.loads(out.read_text())
    for case, one in results[1].items():
        two = results[2][case]
        assert (one["processes"], two["processes"]) == (1, 2)
        assert two["controllers_agree"]
        assert one["records"] == two["records"], case
        assert any(record["group_size"] != 8 for record in two["records"]), "the controller moved"
        torch.testing.assert_close(torch.tensor(one["weights"]), torch.tensor(two["weights"]), rtol=1e-3, atol=1e-5)
    kept = {case: [record["kept_groups"] for record in result["records"]] for case, result in results[2].items()}
    assert kept == {"replaced": [4] * 4, "one process keeps nothing": [2] * 4}


def test_a_checkpoint_with_other_training_data_is_refused(tmp_path, model, tokenizer):
    arguments = config(tmp_path, save_strategy="steps", save_steps=1)
    trainer_of(model, tokenizer, arguments, StaticGroupSize(4), data=prompts(12)).train()
    other = trainer_of(model, tokenizer, config(tmp_path, max_steps=2), StaticGroupSize(4), data=prompts(5))
    with pytest.raises(ValueError, match="holds 5 prompts, but held 12 when the state was saved"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


def test_a_checkpoint_of_another_trainer_is_refused(tmp_path, model, tokenizer):
    data = prompts(8)
    GRPOTrainer(
        model,
        by_length,
        args=config(tmp_path, save_strategy="steps", save_steps=1),
        train_dataset=data,
        processing_class=tokenizer,
    ).train()
    with pytest.raises(ValueError, match="not a checkpoint of SagcGRPOTrainer"):
        trainer_of(model, tokenizer, config(tmp_path, max_steps=2), StaticGroupSize(4)).train(
            resume_from_checkpoint=str(tmp_path / "checkpoint-1")
        )


# Logs of the stock trainer -------------------------------------------------------------------------------------------


def test_replay_reads_the_completions_that_the_stock_trainer_logs(tmp_path, model, tokenizer):
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    generated, given = [], []

    def reward(completions, completion_ids, **columns):
        generated.append([len(ids) for ids in completion_ids])
        given.append(by_length(completions))
        return given[-1]

    arguments = config(
        tmp_path,
        max_steps=3,
        log_completions=True,
        logging_strategy="steps",
        logging_steps=1,
        num_completions_to_print=1,
    )
    GRPOTrainer(
        model,
        reward,
        args=arguments,
        train_dataset=prompts(40),
        processing_class=tokenizer,
        rollout_func=scripted_rollout(tokenizer, TEXTS),
    ).train()
    log = read_log(tmp_path, tokenizer=str(tmp_path / "tokenizer"), limit=LIMIT)
    assert [step.number for step in log.steps] == [1, 2, 3]
    assert [step.lengths.reshape(-1).tolist() for step in log.steps] == generated
    for step, rewards in zip(log.steps, given, strict=True):
        unequal = [len(set(rewards[first : first + 4])) > 1 for first in range(0, 16, 4)]
        assert [len(set(group)) > 1 for group in step.rewards.tolist()] == unequal
