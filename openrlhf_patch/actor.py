"""OpenRLHF's policy actor with micro batches that follow the group size. Runs in the Ray workers that train."""

from collections.abc import Callable
from functools import partial

from openrlhf_patch import cpu

cpu.install()

from openrlhf.models import aggregate_loss  # noqa: E402
from openrlhf.trainer.ray import ppo_actor  # noqa: E402
from openrlhf.trainer.ray.launcher import ReferenceModelActor  # noqa: E402
from openrlhf.trainer.ray.ppo_actor import PolicyModelActor  # noqa: E402

from openrlhf_patch.job import say  # noqa: E402


class PolicyActor(PolicyModelActor.__ray_metadata__.modified_class.__ray_actor_class__):
    """PolicyModelActor whose rollouts may differ in size.

    The number of micro batches per update stays what DeepSpeed was set up with, and their size changes: accumulation
    boundaries, the learning-rate schedule and the scale of the loss then know nothing of the group size.

    The KL term is averaged as the policy loss is, as in the vanilla stack: upstream averages it over all tokens in any
    case, so that with a mean over responses long ones would be held to the reference more than short ones.
    """

    def init_model_from_pretrained(self, strategy, *arguments, **options):
        by_token = strategy.args.actor.loss_agg_mode == "token-mean"
        ppo_actor.aggregate_loss = partial(aggregate_loss, token_level_loss=by_token)  # of this process
        result = super().init_model_from_pretrained(strategy, *arguments, **options)
        self.scale, scheduler = 1.0, self.actor_scheduler
        scheduler.lr_lambdas = [self._scaled(scheduled) for scheduled in scheduler.lr_lambdas]
        say("policy is loaded")
        return result

    def _scaled(self, scheduled: Callable[[int], float]) -> Callable[[int], float]:
        return lambda step: self.scale * scheduled(step)

    def set_shape(
        self, size: int, prompts: int, train_batch: int, micro_batch: int, learning_rate_scale: float
    ) -> dict[str, float]:
        """Take responses for updates of `train_batch` responses (all processes), `micro_batch` at a time (this one).

        Returns the optimizer steps done, and the learning rate of the next, with its scale.
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
        self.scale, scheduler = learning_rate_scale, self.actor_scheduler
        groups = scheduler.optimizer.param_groups
        for group, base, scheduled in zip(groups, scheduler.base_lrs, scheduler.lr_lambdas, strict=True):
            group["lr"] = base * scheduled(scheduler.last_epoch)
        return {"optimizer_steps": engine.global_steps, "learning_rate": groups[0]["lr"]}

    def fit(self, kl_ctl: float = 0) -> dict[str, float]:
        """Upstream's updates on one rollout; its status, with the optimizer steps done since the run began."""
        return {**super().fit(kl_ctl), "optimizer_steps": self.actor.model.global_steps}

    def keep_model(self, folder: str) -> None:
        """Write the policy as it is now into a folder, in Hugging Face format."""
        self.strategy.save_model(self.actor, self.tokenizer, folder)


class ReferenceActor(ReferenceModelActor.__ray_metadata__.modified_class.__ray_actor_class__):
    """ReferenceModelActor, imported from here so that its process is patched for CPUs too."""
