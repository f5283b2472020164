"""OpenRLHF's PPOTrainer with a group size that a controller changes between steps: the `openrlhf` stack.

How it departs from the stock trainer (OpenRLHF 0.11.2), and why:

1. G is read from the controller when a rollout begins, and applied to generation, advantages and micro batches
   (openrlhf_patch/samples.py, experience.py, actor.py). The controller runs in this process, the only one that sees
   whole rollouts.
2. The learning-rate horizon is rollouts x updates per rollout; upstream's depends on G.
3. A rollout that is short of groups, because dynamic filtering ran out of rounds, is filled up with samples that do not
   count; one without any group is no update.
4. Every step is written to the run's trace, with its times and vLLM's distance to the policy.
5. The learning rate follows the samples, and models are kept on the way, where the config says so.
6. Checkpoints hold the controller's state, the prompts drawn and a copy of the trace, and are marked when whole.

It runs in a Ray worker without a GPU; Ray, the engines and the policy actors are upstream's.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import ray

from openrlhf_patch import cpu

cpu.install()

from openrlhf.trainer.ppo_trainer import PPOTrainer  # noqa: E402
from openrlhf.trainer.ppo_utils.experience import Experience  # noqa: E402

from openrlhf_patch.checkpoints import FOLDER, STEP, make_room  # noqa: E402
from openrlhf_patch.experience import GroupExperienceMaker, fill_up  # noqa: E402
from openrlhf_patch.flags import micro_batch_size  # noqa: E402
from openrlhf_patch.groups import PromptSource, prompt_texts  # noqa: E402
from openrlhf_patch.job import Spec, say  # noqa: E402
from openrlhf_patch.samples import GroupSamplesGenerator  # noqa: E402
from sagc.config.run import RunConfig  # noqa: E402
from sagc.controllers.protocol import GroupSizeController  # noqa: E402
from sagc.data.prompts import read_prompts  # noqa: E402
from sagc.run.checkpoints import save_trace  # noqa: E402
from sagc.run.rollout import Rollout  # noqa: E402
from sagc.system.files import folder_atomically  # noqa: E402
from sagc.trace import TraceWriter  # noqa: E402


@dataclass(frozen=True)
class Job:
    """What the trainer needs beside OpenRLHF's arguments.

    `root` is the process from which all others of the run descend; None where Ray's are not ours.
    """

    run: RunConfig
    controller: GroupSizeController
    data: Path
    trace: Path
    kept: Path
    root: int | None

    @classmethod
    def of(cls, spec: Spec, controller: GroupSizeController | None = None) -> "Job":
        """What the launcher asks for, in the process that starts Ray; `controller` stands in for the run's own."""
        run = RunConfig.model_validate(spec.run)
        root = None if run.openrlhf.ray_address else os.getpid()
        controller = controller or run.build_controller()
        return cls(run, controller, Path(spec.data), Path(spec.trace), Path(spec.kept), root)


class GroupTrainer(PPOTrainer.__ray_metadata__.modified_class.__ray_actor_class__):
    """PPOTrainer whose group size follows a controller.

    Parameters
    ----------
    job : Job
    *arguments, **options
        Upstream's.
    """

    def __init__(self, *arguments, job: Job, **options):
        super().__init__(*arguments, **options)
        self.run, self.controller, self.kept = job.run, job.controller, job.kept
        self.trace = TraceWriter(job.trace)
        training, sampling = self.run.training, self.run.algorithm.dynamic_sampling
        self.max_steps = training.steps * training.optimizer_steps
        rows = read_prompts(job.data)
        texts = prompt_texts(self.tokenizer, [row["prompt"] for row in rows])
        self.prompts_dataloader = PromptSource(texts, rows, self.run.reward, self.run.seeds["data"])
        self.samples_generator = GroupSamplesGenerator(
            strategy=self.strategy,
            tokenizer=self.tokenizer,
            vllm_engines=self.vllm_engines,
            prompts=self.prompts_dataloader,
            controller=self.controller,
            training=training,
            max_rounds=sampling.max_rounds if sampling else 1,
            root=job.root,
        )
        self.experience_maker = GroupExperienceMaker(
            self.actor_model_group,
            self.critic_model_group,
            self.reward_model_group,
            self.reference_model_group,
            self.kl_ctl,
            self.strategy,
            self.tokenizer,
        )
        say("trainer is up")

    def fit(self, global_step: int = 0) -> None:
        say("first step begins")
        super().fit(global_step)

    def train_step(self, rollout_samples: list[Experience], global_step: int) -> tuple[dict, int]:
        rollout = self.samples_generator.rollout
        before = self._set_shape(rollout)
        rollout.policy_version, rollout.learning_rate = before["optimizer_steps"], before["learning_rate"]
        status = {"generated_samples": None}
        if rollout.kept:
            samples = fill_up(rollout_samples, rollout.prompts * rollout.group_size)
            status, _ = super().train_step(samples, global_step)
            rollout.vllm_kl = self.experience_maker.vllm_kl
            rollout.optimizer_steps = status["optimizer_steps"] - before["optimizer_steps"]
        self.trace.append(rollout.record(self.controller, self._processor_s(rollout)))
        if self.run.training.keeps_model(rollout.step):
            with folder_atomically(self.kept / str(rollout.step)) as temporary:
                ray.get(self.actor_model_group.async_run_method("keep_model", folder=str(temporary)))
        return status, global_step + 1

    def _processor_s(self, rollout: Rollout) -> float | None:
        """Processor seconds of the step so far, where they are known."""
        now = self.samples_generator.processor_seconds()
        return None if now is None else now - rollout.processor_started

    def _set_shape(self, rollout: Rollout) -> dict[str, float]:
        """Prepare all for a rollout's shape; returns the optimizer steps done and the learning rate of the next."""
        size, updates = rollout.group_size, self.run.training.optimizer_steps
        micro = micro_batch_size(self.run, size)
        self.args.rollout.micro_batch_size = micro
        shape = {
            "size": size,
            "prompts": rollout.prompts,
            "train_batch": rollout.prompts * size // updates,
            "micro_batch": micro,
            "learning_rate_scale": rollout.learning_rate_scale(self.run.algorithm.reference_samples, updates),
        }
        return ray.get(self.actor_model_group.async_run_method("set_shape", **shape))[0]

    def broadcast_to_vllm(self) -> None:
        started = time.perf_counter()
        super().broadcast_to_vllm()
        if self.samples_generator.rollout is not None:  # a resumed run hands over its weights before the first rollout
            self.samples_generator.rollout.sync_s += time.perf_counter() - started

    # Checkpoints -------------------------------------------------------------------------------------------------

    def save_logs_and_checkpoints(self, global_step: int, logs_dict=None, client_states=None) -> None:
        client_states = {**(client_states or {}), "controller": self.controller.state_dict()}
        checkpoints, saves = Path(self.args.ckpt.path), global_step % self.args.ckpt.save_steps == 0
        if saves:
            make_room(checkpoints)
        super().save_logs_and_checkpoints(global_step, logs_dict, client_states)
        if saves:
            save_trace(checkpoints / FOLDER / f"{STEP}{global_step}", self.trace.path)

    def init_checkpoint_states(self) -> dict:
        states = super().init_checkpoint_states()
        if "controller" in states:
            self.controller.load_state_dict(states["controller"])
            self.samples_generator.rollouts = states["global_step"]
        return states
