"""One run of bench_openrlhf.py: `python -m tests.bench.openrlhf_turn stock|sagc JOB.json`.

`stock` trains with OpenRLHF's own trainer, sample generator and actors, patched only for what a CPU needs. Both print a
line at the end of every step, with the time.
"""

import runpy
import sys
import time
from pathlib import Path

from openrlhf_patch import cpu

cpu.install()

import openrlhf.trainer.ppo_trainer as ppo_trainer  # noqa: E402
import openrlhf.trainer.ray.ppo_actor as ppo_actor  # noqa: E402
import openrlhf.trainer.ray.vllm_engine as vllm_engine  # noqa: E402
import ray  # noqa: E402

from openrlhf_patch import driver  # noqa: E402
from openrlhf_patch.job import Spec  # noqa: E402
from openrlhf_patch.processes import die_with_parent  # noqa: E402
from openrlhf_patch.trainer import GroupTrainer, Job  # noqa: E402
from sagc.config.run import RunConfig  # noqa: E402


class StepClock:
    """Says when a step has ended: its checkpoint, the last thing that it may write, is then done."""

    def save_logs_and_checkpoints(self, *arguments, **options):
        super().save_logs_and_checkpoints(*arguments, **options)
        print(f"STEP ENDS {time.time()}", flush=True)


class ClockedGroupTrainer(StepClock, GroupTrainer):
    pass


def _stock(actor_class) -> type:
    """The class behind a Ray actor class."""
    return actor_class.__ray_metadata__.modified_class.__ray_actor_class__


# The stock classes, imported from here so that their processes are patched.
class StockTrainer(StepClock, _stock(ppo_trainer.PPOTrainer)):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)


class StockPolicy(_stock(ppo_actor.PolicyModelActor)):
    pass


class StockEngine(_stock(vllm_engine.RolloutRayActor)):
    async def __init__(self, *arguments, **options):
        await super().__init__(*arguments, **cpu.engine_arguments(options))


def train_stock(run: RunConfig, spec: Spec) -> None:
    """As driver.execute, with the stock classes."""
    driver.start_ray(run.openrlhf, spec.ray_folder)
    ppo_trainer.PPOTrainer = ray.remote(StockTrainer)
    ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(StockPolicy)
    vllm_engine.RolloutRayActor = ray.remote(StockEngine)
    sys.argv = [driver.CLI, *spec.flags]
    try:
        runpy.run_module(driver.CLI, run_name="__main__", alter_sys=True)
    finally:
        ray.shutdown()


def main(trainer: str, path: str) -> None:
    """Train as a job says."""
    die_with_parent()
    spec = Spec.read(Path(path))
    run = RunConfig.model_validate(spec.run)
    if trainer == "stock":
        train_stock(run, spec)
    else:
        driver.execute(Job.of(spec), spec.flags, spec.ray_folder, ClockedGroupTrainer)


if __name__ == "__main__":
    from tests.bench.openrlhf_turn import main as imported  # classes of a module that Ray's workers can import

    imported(*sys.argv[1:])
