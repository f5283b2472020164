"""The prompts of a run, those of one rollout, and the groups of responses that they get."""

from collections import Counter
from dataclasses import dataclass, field

from sagc.prompts import PromptStream
from sagc.rollout import Rollout

# Scores of a group's responses. OpenRLHF's dynamic filtering keeps groups whose mean score is between 0 and 1.
INFORMATIVE, EQUAL = 0.5, 0.0


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
        The prompts as text, after any chat template.
    rows : list of dict
        The data's rows, in the same order: the columns that the reward reads.
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
        columns = {name: value for name, value in self.source.rows[row].items() if name != "prompt"}
        label = {"group": len(self.groups), "reward": self.source.reward, "columns": columns}
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
