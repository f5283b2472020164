"""The driver process: Ray, our actor classes in the place of upstream's, and OpenRLHF's unmodified CLI module.

`python -m openrlhf_patch.driver JOB.json`, as openrlhf_patch/launch.py calls it; a job says what `Spec` says.
"""

import os
import runpy
import sys
from pathlib import Path

import ray

from openrlhf_patch import cpu
from openrlhf_patch.job import Spec, say
from openrlhf_patch.liveness import EngineWatch
from openrlhf_patch.processes import die_with_parent
from sagc.config.sections import OpenRLHFProfile

CLI = "openrlhf.cli.train_ppo_ray"
OBJECT_STORE = 512 * 2**20  # bytes, on a CPU: rollouts of small models


class WithArguments:
    """A Ray actor class, created with further arguments beside those that the CLI gives."""

    def __init__(self, actor_class, **arguments):
        self.actor_class, self.arguments = actor_class, arguments

    def remote(self, *arguments, **options):
        return self.actor_class.remote(*arguments, **options, **self.arguments)


def execute(job, flags: list[str], ray_folder: str, trainer: type | None = None, policy: type | None = None) -> None:
    """Train.

    Parameters
    ----------
    job : openrlhf_patch.trainer.Job
    flags : list of str
        OpenRLHF's command line.
    ray_folder : str
        Ray's own files; a short path, for it holds sockets.
    trainer, policy : type, optional
        Other classes than GroupTrainer and PolicyActor.
    """
    from openrlhf_patch.actor import PolicyActor
    from openrlhf_patch.trainer import GroupTrainer

    say("driver has imported OpenRLHF")
    start_ray(job.run.openrlhf, ray_folder)
    say("Ray is up")
    try:
        with EngineWatch() as watch:
            put_in_place(job, trainer or GroupTrainer, policy or PolicyActor, watch)
            sys.argv = [CLI, *flags]
            runpy.run_module(CLI, run_name="__main__", alter_sys=True)
        say("trained")
    finally:
        ray.shutdown()


def put_in_place(job, trainer: type, policy: type, watch: EngineWatch) -> None:
    """Our classes under the names that the CLI imports when it runs."""
    import openrlhf.trainer.ppo_trainer
    import openrlhf.trainer.ray.launcher
    import openrlhf.trainer.ray.ppo_actor
    import openrlhf.trainer.ray.vllm_engine

    from openrlhf_patch.actor import ReferenceActor
    from openrlhf_patch.engine import RolloutActor

    modules = openrlhf.trainer
    modules.ppo_trainer.PPOTrainer = WithArguments(ray.remote(trainer), job=job)
    modules.ray.ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(policy)
    modules.ray.launcher.ReferenceModelActor = ray.remote(num_gpus=1)(ReferenceActor)
    modules.ray.vllm_engine.RolloutRayActor = ray.remote(RolloutActor)
    modules.ray.create_vllm_engines = watch.watching(modules.ray.vllm_engine.create_vllm_engines)


def start_ray(profile: OpenRLHFProfile, folder: str) -> None:
    """A Ray of this process's own, or the cluster of the profile."""
    # As openrlhf.cli.train_ppo_ray, which leaves a Ray that is up as it is.
    environment = {
        "TOKENIZERS_PARALLELISM": os.environ.get("TOKENIZERS_PARALLELISM", "true"),
        "NCCL_DEBUG": os.environ.get("NCCL_DEBUG", "WARN"),
        "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": os.environ.get("RAY_ENABLE_ZERO_COPY_TORCH_TENSORS", "1"),
    }
    if profile.ray_address:
        ray.init(address=profile.ray_address, runtime_env={"env_vars": environment})
        return
    os.environ.update(environment)  # inherited; a runtime environment of its own would start every worker anew
    logical = {}
    if profile.device == "cpu":
        # Every actor asks for processors and GPUs that exist by name only.
        logical = {"num_cpus": profile.gpus + 4, "num_gpus": profile.gpus + 1, "object_store_memory": OBJECT_STORE}
    ray.init(address="local", include_dashboard=False, _temp_dir=folder, **logical)


def main(path: str) -> None:
    """Read the job and train it."""
    die_with_parent()
    cpu.install()
    from openrlhf_patch.trainer import Job

    spec = Spec.read(Path(path))
    execute(Job.of(spec), spec.flags, spec.ray_folder)


if __name__ == "__main__":
    main(sys.argv[1])
