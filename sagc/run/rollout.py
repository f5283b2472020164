"""One rollout in progress and the StepRecord made from it, shared by all stacks."""

import math
import time
from dataclasses import dataclass, field

from sagc.controllers.protocol import GroupSizeController
from sagc.lengths import StragglerReport, decode_slots, idle_fraction
from sagc.trace import StepRecord


@dataclass
class Rollout:
    """What one rollout generated, over all processes, and when its step started.

    The fields are those of `StepRecord` that are known before the step ends; `started` is a `time.perf_counter` time
    and `processor_started`, if it is measured, one of `sagc.system.processor_time.processor_seconds`.
    """

    step: int
    group_size: int
    prompts: int
    policy_version: int = 0
    learning_rate: float = 0.0
    started: float = field(default_factory=time.perf_counter)
    processor_started: float | None = None
    rounds: list[int] = field(default_factory=list)
    prompt_index: list[int] = field(default_factory=list)
    lengths: list[list[int]] = field(default_factory=list)
    rewards: list[list[float | None]] = field(default_factory=list)
    truncated: int = 0
    kept: int = 0
    filtered: int = 0
    report: StragglerReport | None = None
    rollout_s: float = 0.0
    sync_s: float = 0.0
    optimizer_steps: int = 0
    vllm_kl: float | None = None

    def learning_rate_scale(self, reference_samples: int | None, parts: int) -> float:
        """The factor on the scheduled learning rate when each update uses one of `parts` parts of the rollout.

        The square root of the update's samples over `reference_samples` (Malladi et al. 2022, "On the SDEs and Scaling
        Rules for Adaptive Gradient Algorithms"); 1 without a reference.
        """
        if reference_samples is None:
            return 1.0
        return math.sqrt(self.kept * self.group_size / parts / reference_samples)

    def record(self, controller: GroupSizeController, processor_s: float | None) -> StepRecord:
        """The record of the step, which ends now.

        `controller` has already learnt from the rollout. `processor_s` is the step's processor time over all processes
        (see sagc/system/processor_time.py), or None if it is not known.
        """
        step_s = time.perf_counter() - self.started
        report, status = self.report, controller.status()
        known = [reward for group in self.rewards for reward in group if reward is not None]
        return StepRecord(
            step=self.step,
            policy_version=self.policy_version,
            group_size=self.group_size,
            prompts=self.prompts,
            samples=self.kept * self.group_size,
            kept_groups=self.kept,
            filtered_groups=self.filtered,
            rounds=self.rounds,
            prompt_index=self.prompt_index,
            lengths=self.lengths,
            rewards=self.rewards,
            truncated=self.truncated,
            straggler_events=report.events,
            straggler_rate=report.straggler_rate,
            idle_fraction=idle_fraction(report.tokens, decode_slots(self.lengths, self.rounds)),
            max_length=report.max_length,
            mean_length=report.mean_length,
            median_length=report.median_length,
            tokens=report.tokens,
            reward=sum(known) / len(known) if known else None,
            learning_rate=self.learning_rate,
            optimizer_steps=self.optimizer_steps if self.kept else 0,
            rollout_s=self.rollout_s,
            train_s=step_s - self.rollout_s - self.sync_s,
            sync_s=self.sync_s,
            step_s=step_s,
            dual_variable=status.dual_variable,
            budget=status.budget,
            risks={str(size): risk for size, risk in status.risks.items()},
            infeasible=status.infeasible,
            next_group_size=controller.group_size,
            vllm_kl=self.vllm_kl,
            processor_s=processor_s,
        )
