"""OpenRLHF's sample generator with a group size that changes.

How it departs from upstream's SamplesGenerator, and why:

1. Prompts come from a `PromptSource`: endless, seeded, and resumable; a rollout draws as many as it needs.
2. Dynamic filtering is upstream's (a filtered group is replaced as soon as it is seen), but a prompt is replaced, and
   its replacement, only until `max_rounds` groups were generated in its place: a task whose rewards are all equal ends.
   The groups that were accepted by then are kept.
3. Every group is recorded, filtered ones too: raw lengths, rewards, cut-off responses.
4. No samples are left over for the next rollout, whose group size may be another.
"""

import time

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from openrlhf_patch.groups import PromptSource, RolloutPrompts
from sagc.config.sections import TrainingConfig
from sagc.controllers.protocol import GroupSizeController
from sagc.run.rollout import Rollout
from sagc.system.processor_time import processor_seconds


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
    root : int, optional
        Process from which all of the run descend, for the processor time of a step; None where there is none.
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
        root: int | None,
        **options,
    ):
        super().__init__(prompts_dataloader=prompts, eval_dataloader=None, **options)
        self.controller, self.training, self.max_rounds, self.root = controller, training, max_rounds, root
        self.rollouts = 0  # begun ones
        self.rollout: Rollout | None = None  # the last

    def generate_samples(self, **options) -> tuple[list[Experience], float | None, int, bool]:
        """One rollout: the accepted responses, the share of groups accepted in percent, prompts drawn, and the end."""
        if self.rollouts == self.training.steps:  # a run that ended between its last checkpoint and its model
            return [], None, 0, True
        size = self.controller.group_size
        self.rollouts += 1
        rollout = self.rollout = Rollout(
            step=self.rollouts,
            group_size=size,
            prompts=self.training.prompts_at(size),
            processor_started=self.processor_seconds(),
        )
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
        # Upstream does not count a step without samples; the trainer skips the update of one that kept no group.
        return samples or [Experience()], passed, drawn, self.rollouts == self.training.steps

    def processor_seconds(self) -> float | None:
        """Of all processes of the run so far; None on a Ray cluster, which others share and which may be elsewhere."""
        return None if self.root is None else processor_seconds(self.root)

    def _call_engines(self, method: str) -> None:
        if self.args.vllm.enable_sleep:
            batch_vllm_engine_call(self.vllm_engines, method)

    def _process_response_into_experience(self, response, **options) -> Experience:
        self._prompts.add(response)
        return super()._process_response_into_experience(response, **options)
