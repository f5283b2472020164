"""OpenRLHF's sample generator with a group size that changes, and the prompts that it draws.

How it departs from upstream's SamplesGenerator, and why:

1. Prompts come from a `PromptStream`: endless, seeded, and resumable; a rollout draws as many as it needs.
2. Dynamic filtering is upstream's (a filtered group is replaced as soon as it is seen), but a prompt is replaced, and
   its replacement, only until `max_rounds` groups were generated in its place: a task whose rewards are all equal ends.
   The groups that were accepted by then are kept.
3. Every group is recorded, filtered ones too: raw lengths, rewards, cut-off responses.
4. No samples are left over for the next rollout, whose group size may be another.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from openrlhf_patch.engine import EQUAL
from sagc.controller import GroupSizeController
from sagc.prompts import PromptStream
from sagc.rollout import Rollout
from sagc.sections import TrainingConfig


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


class GroupSamplesGenerator(SamplesGenerator):
    """SamplesGenerator whose group size follows a controller.

    Parameters
    ----------
    prompts : PromptSource
    controller : GroupSizeController
        Asked for the group size at every rollout, and given its lengths.
    training : TrainingConfig
    max_rounds : int
        Groups at most that are generated in the place of one prompt.
    **options
        Upstream's.
    """

    def __init__(
        self,
        *,
        prompts: PromptSource,
        controller: GroupSizeController,
        training: TrainingConfig,
        max_rounds: int,
        **options,
    ):
        super().__init__(prompts_dataloader=prompts, eval_dataloader=None, **options)
        self.controller, self.training, self.max_rounds = controller, training, max_rounds
        self.rollouts = 0  # begun ones
        self.rollout: Rollout | None = None  # the last

    def generate_samples(self, **options) -> tuple[list[Experience], float | None, int, bool]:
        """One rollout: the accepted responses, the share of groups accepted in percent, prompts drawn, and the end."""
        if self.rollouts == self.training.steps:  # a run that ended between its last checkpoint and its model
            return [], None, 0, True
        size = self.controller.group_size
        self.rollouts += 1
        rollout = self.rollout = Rollout(self.rollouts, size, self.training.prompts_at(size))
        self.args.rollout.n_samples_per_prompt, self.args.rollout.batch_size = size, rollout.prompts
        filtering = self.args.algo.dynamic_filtering_enable
        self._prompts = RolloutPrompts(self.prompts_dataloader, self.max_rounds)
        self._call_engines("wake_up")
        samples, drawn, _ = self._generate_vllm(
            dataloader_iter=self._prompts, num_prompts=rollout.prompts, dynamic_filtering=filtering, **options
        )
        self._call_engines("sleep")
        self._prompts.record(rollout, filtering)
        rollout.report = self.controller.step(rollout.lengths)
        rollout.rollout_s = time.perf_counter() - rollout.started
        passed = 100 * rollout.kept / drawn if filtering else None
        return samples, passed, drawn, self.rollouts == self.training.steps

    def _call_engines(self, method: str) -> None:
        if self.args.vllm.enable_sleep:
            batch_vllm_engine_call(self.vllm_engines, method)

    def _process_response_into_experience(self, response, **options) -> Experience:
        self._prompts.add(response)
        return super()._process_response_into_experience(response, **options)
