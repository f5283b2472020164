"""Groups without OpenRLHF: the prompts of a run and of a rollout, the responses that they get, and their advantages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sagc.data.stream import PromptStream
from sagc.run.rollout import Rollout

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

# Scores of a group's responses. OpenRLHF's dynamic filtering keeps groups whose mean score is between 0 and 1.
INFORMATIVE, EQUAL = 0.5, 0.0
EPSILON, UPSTREAM_EPSILON = 1e-4, 1e-9  # beside the deviation that advantages are divided by


def prompt_texts(tokenizer: PreTrainedTokenizerBase, prompts: list[str | list[dict]]) -> list[str]:
    """The prompts as OpenRLHF gets them, which tokenizes text without special tokens.

    Messages go through the chat template, which has all of them. Text begins with the BOS token where the tokenizer
    puts one before text by default, as TRL and lm-eval let it do: a base model that never sees it is another model.
    """
    bos = tokenizer.bos_token if tokenizer(text="")["input_ids"][:1] == [tokenizer.bos_token_id] else ""

    def as_text(prompt: str | list[dict]) -> str:
        if isinstance(prompt, list):
            return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        return prompt if prompt.startswith(bos) else bos + prompt

    return [as_text(prompt) for prompt in prompts]


@dataclass
class Group:
    """The responses to one prompt."""

    row: int  # of the training data
    round: int  # 1, or one more than that of the group that it replaces
    lengths: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    truncated: int = 0
    informative: bool = True


class PromptSource:
    """Stands in for OpenRLHF's prompt data loader.

    Parameters
    ----------
    prompts : list of str
        The prompts as `prompt_texts` makes them.
    rows : list of dict
        The data's rows, in the same order: the prompt as it is there, and the columns that the reward reads.
    reward : str
        Name of the reward.
    seed : int
        Seed of the order.
    """

    def __init__(self, prompts: list[str], rows: list[dict], reward: str, seed: int):
        self.prompts, self.rows, self.reward = prompts, rows, reward
        self.stream = PromptStream(len(rows), seed)

    def __len__(self) -> int:
        return len(self.prompts)

    def state_dict(self) -> dict[str, int]:
        return self.stream.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.stream.load_state_dict(state)


class RolloutPrompts:
    """The prompts of one rollout, one by one, as upstream draws them: first all, then one per filtered group."""

    def __init__(self, source: PromptSource, max_rounds: int):
        self.source, self.max_rounds = source, max_rounds
        self.groups: list[Group] = []
        self.seen: Group | None = None  # the group that upstream looked at last

    def __next__(self) -> tuple[list, list, list, list]:
        round_ = self.seen.round + 1 if self.seen else 1
        if round_ > self.max_rounds:
            raise StopIteration
        (row,) = self.source.stream.take(1)
        columns = dict(self.source.rows[row])
        prompt = columns.pop("prompt")
        label = {"group": len(self.groups), "reward": self.source.reward, "prompt": prompt, "columns": columns}
        self.groups.append(Group(row, round_))
        return ["default"], [self.source.prompts[row]], [label], [None]

    def add(self, response: dict) -> None:
        """Record a response."""
        self.seen = group = self.groups[response["label"]["group"]]
        group.lengths.append(sum(end - start for start, end in response["action_ranges"]))
        group.rewards.append(response["reward"])
        group.truncated += response["truncated"]
        group.informative = response["scores"] != EQUAL

    def record(self, rollout: Rollout, filtering: bool) -> None:
        """Write the groups into the rollout's record, in the order of their rounds."""
        groups = sorted(self.groups, key=lambda group: group.round)
        rollout.rounds = [count for _, count in sorted(Counter(group.round for group in groups).items())]
        rollout.prompt_index = [group.row for group in groups]
        rollout.lengths = [group.lengths for group in groups]
        rollout.rewards = [group.rewards for group in groups]
        rollout.truncated = sum(group.truncated for group in groups)
        rollout.filtered = sum(not group.informative for group in groups) if filtering else 0
        rollout.kept = len(groups) - rollout.filtered


def group_factors(rewards: torch.Tensor) -> torch.Tensor:
    """What upstream's advantages are multiplied by, per response: (groups, G) for rewards of that shape.

    The advantages of OpenRLHF's group_norm are then those of the vanilla stack.
    """
    deviation = rewards.std(dim=1, keepdim=True)
    factors = (deviation + UPSTREAM_EPSILON) / (deviation + EPSILON)
    equal = (rewards == rewards[:, :1]).all(dim=1, keepdim=True)
    return factors.masked_fill(equal, 0.0).expand_as(rewards)
