"""OpenRLHF's vLLM actor, which also says whether a group's rewards differ, and when its engine is dead.

Runs in the Ray worker of a vLLM engine.
"""

import asyncio

from openrlhf.trainer.ray.vllm_engine import RolloutRayActor

from openrlhf_patch import cpu
from openrlhf_patch.groups import EQUAL, INFORMATIVE
from openrlhf_patch.job import say

LOOK_S = 1.0  # seconds between looks at the engine


class RolloutActor(RolloutRayActor.__ray_metadata__.modified_class.__ray_actor_class__):
    """RolloutRayActor whose scores are the same for the responses of a group.

    Upstream filters a group by its mean score. With the reward as the score, that drops groups of equal rewards only
    where every reward is 0 or 1; DAPO drops them whatever they are (Yu et al. 2025, section 3.2).
    """

    async def __init__(self, *arguments, **options):
        if cpu.wanted():
            options = cpu.engine_arguments(options)
        await super().__init__(*arguments, **options)
        say("vLLM is up")

    async def until_dead(self) -> None:
        """Never returns; raises vLLM's error once the engine's process has ended."""
        while True:
            await self.llm.check_health()
            await asyncio.sleep(LOOK_S)

    async def generate_responses(self, *arguments, **options):
        responses = await super().generate_responses(*arguments, **options)
        rewards = [response["reward"] for response in responses]
        score = INFORMATIVE if min(rewards) != max(rewards) else EQUAL
        return [{**response, "scores": score} for response in responses]
