"""SAGC in any training loop. The rollout here only draws lengths; replace it with your own generation and update."""

import json

import numpy as np

from sagc import SAGC

rng = np.random.default_rng(0)


def rollout(prompts, group_size):
    """Token counts, end token included: one list per prompt, one number per response."""
    return rng.lognormal(5, 0.6, (prompts, group_size)).astype(int).clip(1, 2048).tolist()


controller = SAGC()
for step in range(50):
    lengths = rollout(prompts=16, group_size=controller.group_size)  # 1. ask for the group size
    report = controller.step(lengths)  # 2. pass every group that was generated, including those you drop
    checkpoint = json.dumps(controller.state_dict())  # 3. save it with the model; load_state_dict continues
    print(step, len(lengths[0]), f"{report.straggler_rate:.2f}", controller.group_size)
print(controller)
