"""OpenRLHF's policy actor with micro batches that follow the group size. Runs in the Ray workers that train."""

from openrlhf_patch import cpu

cpu.install()

from openrlhf.trainer.ray.launcher import ReferenceModelActor  # noqa: E402
from openrlhf.trainer.ray.ppo_actor import PolicyModelActor  # noqa: E402

from openrlhf_patch.clock import say  # noqa: E402


class PolicyActor(PolicyModelActor.__ray_metadata__.modified_class.__ray_actor_class__):
    """PolicyModelActor whose rollouts may differ in size.

    The number of micro batches per update stays what DeepSpeed was set up with, and their size changes: accumulation
    boundaries, the learning-rate schedule and the scale of the loss then know nothing of the group size.
    """

    def init_model_from_pretrained(self, *arguments, **options):
        result = super().init_model_from_pretrained(*arguments, **options)
        say("policy is loaded")
        return result

    def set_shape(self, size: int, prompts: int, train_batch: int, micro_batch: int) -> None:
        """Take responses for updates of `train_batch` responses (all processes), `micro_batch` at a time (this one).

        Raises RuntimeError while an update is half done, or responses of another rollout are still buffered.
        """
        engine, buffer = self.actor.model, self.trainer.replay_buffer
        if engine.micro_steps % engine.gradient_accumulation_steps() or buffer.items:
            raise RuntimeError("the group size can only change between updates")
        args = self.strategy.args
        args.rollout.n_samples_per_prompt, args.rollout.batch_size = size, prompts  # this process's own copy
        args.train.batch_size = train_batch
        if not args.train.dynamic_batch_enable:
            buffer.sample_batch_size = micro_batch

    def progress(self) -> dict[str, float]:
        """Optimizer steps done, and the learning rate of the next."""
        return {
            "optimizer_steps": self.actor.model.global_steps,
            "learning_rate": self.actor_scheduler.get_last_lr()[0],
        }


class ReferenceActor(ReferenceModelActor.__ray_metadata__.modified_class.__ray_actor_class__):
    """ReferenceModelActor, imported from here so that its process is patched for CPUs too."""
