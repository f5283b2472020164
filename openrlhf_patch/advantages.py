"""What makes the advantages of OpenRLHF's group_norm those of the vanilla stack."""

import torch

EPSILON, UPSTREAM_EPSILON = 1e-4, 1e-9


def group_factors(rewards: torch.Tensor) -> torch.Tensor:
    """What upstream's advantages are multiplied by, per response: (groups, G) for rewards of that shape."""
    deviation = rewards.std(dim=1, keepdim=True)
    factors = (deviation + UPSTREAM_EPSILON) / (deviation + EPSILON)
    equal = (rewards == rewards[:, :1]).all(dim=1, keepdim=True)
    return factors.masked_fill(equal, 0.0).expand_as(rewards)
