"""openrlhf_patch.groups: how groups are drawn, replaced and recorded; what equal rewards are worth."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from openrlhf_patch.groups import EQUAL, INFORMATIVE, PromptSource, RolloutPrompts, group_factors, prompt_texts
from sagc.data.stream import PromptStream
from sagc.run.rollout import Rollout
from sagc.tiny.tokenizer import build_tokenizer

ROWS = [{"prompt": f"p{i}", "answer": str(i)} for i in range(10)]


def source(seed: int = 0) -> PromptSource:
    return PromptSource([row["prompt"] for row in ROWS], ROWS, "tiny", seed)


def generate(prompts: RolloutPrompts, count: int, equal) -> None:
    """What OpenRLHF's SamplesGenerator._generate_vllm does: draw, process in some order, replace what is filtered."""
    pending = [next(prompts) for _ in range(count)]
    while pending:
        _, (prompt,), (label,), _ = pending.pop()  # the last one dispatched is the first one done
        group = label["group"]
        score = EQUAL if equal(group) else INFORMATIVE
        for response in range(2):
            action = [(4, 14 + group + response)]
            prompts.add(
                {"label": label, "action_ranges": action, "reward": 0.5, "truncated": group == 0, "scores": score}
            )
        if score == EQUAL:
            try:
                pending.append(next(prompts))
            except StopIteration:
                continue
        assert prompt == ROWS[prompts.groups[group].row]["prompt"]


def test_prompts_come_in_the_order_of_the_stream_with_their_columns():
    prompts, rows = RolloutPrompts(source(3), max_rounds=1), PromptStream(10, 3).take(4)
    for order, row in enumerate(rows):
        _, (text,), (label,), _ = next(prompts)
        assert text == f"p{row}"
        assert label == {"group": order, "reward": "tiny", "prompt": f"p{row}", "columns": {"answer": str(row)}}


@pytest.fixture
def llama_like():
    """A tokenizer that puts a BOS token before text, as Llama's does; its chat template puts it there itself."""
    words = ["<bos>", "<eos>", "<unk>", "user", ":", "12", "+", "30", "="]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 0)])
    special = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.chat_template = "{{ bos_token }}{% for m in messages %}{{ m.role }} : {{ m.content }}{% endfor %}"
    return fast


def as_openrlhf(tokenizer, prompt):
    """The token ids of SingleTurnAgentExecutor.execute."""
    return tokenizer(text=prompt_texts(tokenizer, [prompt])[0], add_special_tokens=False)["input_ids"]


def test_a_text_has_the_tokens_that_its_tokenizer_gives_it_by_default(llama_like):
    assert as_openrlhf(llama_like, "12 + 30 =") == llama_like("12 + 30 =")["input_ids"] == [0, 5, 6, 7, 8]
    assert as_openrlhf(llama_like, "") == llama_like("")["input_ids"] == [0]


def test_a_bos_token_is_never_put_twice(llama_like):
    assert as_openrlhf(llama_like, "<bos>12 + 30 =") == [0, 5, 6, 7, 8]
    messages = [{"role": "user", "content": "12 + 30 ="}]
    by_template = llama_like.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert as_openrlhf(llama_like, messages) == by_template == [0, 3, 4, 5, 6, 7, 8]


def test_messages_have_a_bos_token_only_where_the_template_puts_one(llama_like):
    llama_like.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    messages = [{"role": "user", "content": "12 + 30 ="}]
    by_template = llama_like.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert as_openrlhf(llama_like, messages) == by_template == [5, 6, 7, 8]


def test_a_tokenizer_that_adds_nothing_gets_the_text_as_it_is(llama_like):
    tokenizer, text = build_tokenizer(), "1x +2 = 3:"
    assert prompt_texts(tokenizer, [text]) == [text]
    assert as_openrlhf(tokenizer, text) == tokenizer(text)["input_ids"]
    llama_like.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    assert prompt_texts(llama_like, [text]) == [text]  # it has a BOS token, and does not put it before text


def test_a_rollout_where_every_group_is_equal_ends_after_max_rounds():
    prompts, rollout = RolloutPrompts(source(), max_rounds=3), Rollout(1, 2, 4)
    generate(prompts, 4, equal=lambda group: True)
    prompts.record(rollout, filtering=True)
    assert (rollout.rounds, rollout.kept, rollout.filtered) == ([4, 4, 4], 0, 12)


def test_groups_are_recorded_by_round_with_filtered_ones_and_raw_lengths():
    prompts, rollout = RolloutPrompts(source(), max_rounds=2), Rollout(1, 2, 4)
    generate(prompts, 4, equal=lambda group: group in (1, 3, 4))  # 4 takes the place of 3, and is not replaced
    prompts.record(rollout, filtering=True)
    assert (rollout.rounds, rollout.kept, rollout.filtered) == ([4, 2], 3, 3)
    assert rollout.prompt_index == PromptStream(10, 0).take(6)
    assert rollout.lengths == [[10 + group, 11 + group] for group in range(6)]
    assert rollout.truncated == 2


def test_without_filtering_equal_groups_are_kept():
    prompts, rollout = RolloutPrompts(source(), max_rounds=1), Rollout(1, 2, 4)
    generate(prompts, 4, equal=lambda group: group == 1)
    prompts.record(rollout, filtering=False)
    assert (rollout.rounds, rollout.kept, rollout.filtered) == ([4], 4, 0)


def test_a_source_goes_on_where_its_state_was_saved():
    first, second = source(), source()
    RolloutPrompts(first, 1).__next__()
    second.load_state_dict(first.state_dict())
    assert next(RolloutPrompts(first, 1))[1] == next(RolloutPrompts(second, 1))[1]


@pytest.mark.parametrize("size", [2, 3, 4, 6, 8, 12, 16])
@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1 / 3, 0.7, 1.0, -0.2])
def test_equal_rewards_give_no_advantage(size, value):
    rewards = torch.full((2, size), value)
    upstream = (rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-9)
    assert (upstream * group_factors(rewards) == 0).all()


def test_the_rounding_of_a_mean_is_a_signal_upstream():
    """Why there is a factor at all."""
    rewards = torch.full((1, 6), 0.3)
    upstream = (rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-9)
    assert upstream.abs().max() > 0.5


def test_other_rewards_are_normalised_as_in_the_vanilla_stack():
    rewards = torch.rand(5, 8, generator=torch.Generator().manual_seed(0))
    centred, deviation = rewards - rewards.mean(-1, keepdim=True), rewards.std(-1, keepdim=True)
    upstream = centred / (deviation + 1e-9)
    torch.testing.assert_close(upstream * group_factors(rewards), centred / (deviation + 1e-4))
