"""Checks that the batch shape fits every size of a controller's ladder."""

from sagc.config.run import RunConfig
from sagc.errors import UserError


def check_divisible(run: RunConfig, processes: int = 1, whole_groups: bool = True) -> None:
    """Check that no size of the ladder would lose samples.

    Every rollout's responses are split evenly over processes, optimizer steps and micro batches. With `whole_groups`, a
    group never straddles two processes, as when the process that generates a group also trains on it.

    Raises
    ------
    UserError
        If some size would; the message names the key.
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
                    f"training.samples_per_step is {training.samples_per_step}, which is not a multiple of "
                    f"group size {size}" + (several if whole_groups else "")
                )
        prompts = training.prompts_at(size)
        if whole_groups and prompts % processes:
            raise UserError(f"training.prompts_per_step is {prompts}, which is not a multiple of {processes} processes")
        if prompts * size % (processes * parts):
            raise UserError(
                f"training.optimizer_steps x {key} is {parts}, which{several} does not divide the "
                f"{prompts * size} responses at group size {size}"
            )


def check_prompts(run: RunConfig, count: int) -> None:
    """Check that `count` training prompts are enough for a rollout without repeats at every size of the ladder.

    Raises
    ------
    UserError
        If they are not; the message names the key.
    """
    key = "samples_per_step" if run.training.hold == "samples" else "prompts_per_step"
    for size in run.build_controller().ladder:
        if (prompts := run.training.prompts_at(size)) > count:
            raise UserError(
                f"training.{key} is {getattr(run.training, key)}, which asks for {prompts} prompts per rollout at "
                f"group size {size}, but the training data holds {count}"
            )
