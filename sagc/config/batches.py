"""Batch shapes that every size of a controller's ladder must fit."""

from sagc.config.run import RunConfig
from sagc.errors import UserError


def check_divisible(run: RunConfig, processes: int = 1, whole_groups: bool = True) -> None:
    """Refuse batch shapes that would lose samples at some size of the ladder.

    Every rollout's responses are split evenly over processes, optimizer steps and micro batches. With `whole_groups` a
    group never straddles two processes, as where the one that generates it also trains on it. Raises UserError that
    names the key.
    """
    training, controller = run.training, run.build_controller()
    parts = training.optimizer_steps * run.micro_batches
    key = "training.micro_batches" if run.micro_batches == training.micro_batches else "the profile's micro_batches"
    several = f" x {processes} processes" if processes > 1 else ""
    for size in controller.ladder:
        if training.hold == "samples":
            unit = size * processes if whole_groups else size
            if training.samples_per_step % unit:
                raise UserError(
                    f"training.samples_per_step is {training.samples_per_step}, which is no multiple of "
                    f"group size {size}" + (several if whole_groups else "")
                )
        prompts = training.prompts_at(size)
        if whole_groups and prompts % processes:
            raise UserError(f"training.prompts_per_step is {prompts}, which is no multiple of {processes} processes")
        if prompts * size % (processes * parts):
            raise UserError(
                f"training.optimizer_steps x {key} is {parts}, which{several} does not divide the "
                f"{prompts * size} responses at group size {size}"
            )


def check_prompts(run: RunConfig, count: int) -> None:
    """Refuse training data of `count` prompts where a rollout at some size of the ladder would hold one of them twice.

    Raises UserError that names the key.
    """
    key = "samples_per_step" if run.training.hold == "samples" else "prompts_per_step"
    for size in run.build_controller().ladder:
        if (prompts := run.training.prompts_at(size)) > count:
            raise UserError(
                f"training.{key} is {getattr(run.training, key)}, which asks for {prompts} prompts per rollout at "
                f"group size {size}, and the training data holds {count}"
            )
