"""The driver of the openrlhf stack with a scripted controller, and eyes in the policy actors.

    python openrlhf_scripted.py SPEC.json FOLDER 4,8,3 [--no-sync | --clock-back]

Every policy process writes FOLDER/update<step>.rank<rank>.pt: what it trained on, its weights before the update and the
gradient that DeepSpeed then had.
"""

import os
import sys
from pathlib import Path

from openrlhf_patch import cpu

cpu.install()

import torch  # noqa: E402
from deepspeed.utils import safe_get_full_grad  # noqa: E402

from openrlhf_patch import driver  # noqa: E402
from openrlhf_patch.actor import PolicyActor  # noqa: E402
from openrlhf_patch.job import Spec  # noqa: E402
from openrlhf_patch.processes import die_with_parent  # noqa: E402
from openrlhf_patch.trainer import GroupTrainer, Job  # noqa: E402
from sagc.controllers.protocol import ControllerStatus, GroupSizeController  # noqa: E402

FOLDER = "SAGC_TEST_FOLDER"
FIELDS = (
    "sequences",
    "attention_mask",
    "action_mask",
    "action_log_probs",
    "base_action_log_probs",
    "rollout_log_probs",
    "advantages",
    "rewards",
)


class Scripted(GroupSizeController):
    """Plays the sizes of a list, one after another; the last one stays."""

    type = "scripted"

    def __init__(self, sizes):
        super().__init__(tuple(sorted(set(sizes))), sizes[0], tau=2.0, event="group")
        self.sizes = sizes

    def status(self):
        return ControllerStatus()

    def _next_size(self, rollout, report):
        return self.sizes[min(self.steps + 1, len(self.sizes) - 1)]


class SeenPolicy(PolicyActor):
    def fit(self, kl_ctl=0):
        engine, folder = self.actor.model, Path(os.environ[FOLDER])
        samples = [{name: getattr(item, name) for name in FIELDS} for item in self.trainer.replay_buffer.items]
        weights = {name: p.detach().clone() for name, p in engine.module.named_parameters()}
        seen, micro_batches, step = {}, [], engine.step

        def watched_step(*arguments, **options):
            micro_batches.append(self.trainer.replay_buffer.sample_batch_size)
            if engine.is_gradient_accumulation_boundary():
                for name, parameter in engine.module.named_parameters():
                    seen[name] = safe_get_full_grad(parameter)
            return step(*arguments, **options)

        engine.step = watched_step
        try:
            return super().fit(kl_ctl)
        finally:
            engine.step = step
            content = {"samples": samples, "weights": weights, "gradients": seen, "micro_batches": micro_batches}
            torch.save(content, folder / f"update{engine.global_steps}.rank{self.strategy.get_rank()}.pt")


class WithoutSync(GroupTrainer):
    """vLLM keeps the weights that it started with."""

    def broadcast_to_vllm(self):
        pass


class ClockSetBack(GroupTrainer):
    """The clock is set back by an hour before every checkpoint."""

    def save_logs_and_checkpoints(self, *arguments, **options):
        for path in (Path(self.args.ckpt.path) / "_actor").glob("global_step*"):
            later = path.stat().st_mtime + 3600
            os.utime(path, (later, later))
        super().save_logs_and_checkpoints(*arguments, **options)


TRAINERS = {"--no-sync": WithoutSync, "--clock-back": ClockSetBack}

if __name__ == "__main__":
    die_with_parent()
    spec, folder = Spec.read(Path(sys.argv[1])), sys.argv[2]
    sizes = [int(size) for size in sys.argv[3].split(",")]
    trainer = TRAINERS.get(sys.argv[-1])
    os.environ[FOLDER] = folder  # inherited by Ray's workers
    driver.execute(Job.of(spec, Scripted(sizes)), spec.flags, spec.ray_folder, trainer, SeenPolicy)
