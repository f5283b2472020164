"""OpenRLHF's own trainer, sample generator and actors: only what a CPU needs is patched. For bench_openrlhf.py."""

import runpy
import sys
from pathlib import Path

from openrlhf_patch import cpu

cpu.install()

import openrlhf.trainer.ppo_trainer as ppo_trainer  # noqa: E402
import openrlhf.trainer.ray.ppo_actor as ppo_actor  # noqa: E402
import openrlhf.trainer.ray.vllm_engine as vllm_engine  # noqa: E402
import ray  # noqa: E402

from openrlhf_patch import driver  # noqa: E402
from openrlhf_patch.cpu.engine import engine_arguments  # noqa: E402
from openrlhf_patch.job import Spec  # noqa: E402
from openrlhf_patch.processes import die_with_parent  # noqa: E402
from sagc.config import RunConfig  # noqa: E402


def _stock(actor_class) -> type:
    """The class behind a Ray actor class."""
    return actor_class.__ray_metadata__.modified_class.__ray_actor_class__


# The same classes, imported from here so that their processes are patched.
class Trainer(_stock(ppo_trainer.PPOTrainer)):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)


class Policy(_stock(ppo_actor.PolicyModelActor)):
    pass


class Engine(_stock(vllm_engine.RolloutRayActor)):
    async def __init__(self, *arguments, **options):
        await super().__init__(*arguments, **engine_arguments(options))


def main(path: str) -> None:
    """Train as a job says."""
    die_with_parent()
    spec = Spec.read(Path(path))
    driver.start_ray(RunConfig.model_validate(spec.run).openrlhf, spec.ray_folder)
    ppo_trainer.PPOTrainer = ray.remote(Trainer)
    ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(Policy)
    vllm_engine.RolloutRayActor = ray.remote(Engine)
    sys.argv = [driver.CLI, *spec.flags]
    try:
        runpy.run_module(driver.CLI, run_name="__main__", alter_sys=True)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    from tests.bench.openrlhf_stock import main as imported  # classes of a module that Ray's workers can import

    imported(sys.argv[1])
