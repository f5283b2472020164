"""Advantages of whole groups, and the experience that fills up a rollout that is short of them."""

import copy

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from openrlhf_patch.groups import group_factors


class GroupExperienceMaker(RemoteExperienceMaker):
    """RemoteExperienceMaker whose equal rewards give advantages of 0, and which measures vLLM against the policy.

    Upstream's group_norm divides by the group's standard deviation + 1e-9: rewards that are all equal, but whose mean
    is rounded, then give advantages near 1. Here it is + 1e-4, as in the vanilla stack, and equal rewards give exactly
    0.

    Attributes
    ----------
    vllm_kl : float
        Mean over the last rollout's response tokens of log vLLM's probability - log the policy's before the updates.
    """

    @torch.no_grad()
    def make_experience(self, samples_list: list[Experience]) -> list[Experience]:
        experiences = super().make_experience(samples_list)
        ratios = [(e.rollout_log_probs - e.action_log_probs)[e.action_mask.bool()] for e in experiences]
        self.vllm_kl = torch.cat(ratios).mean().item()
        return experiences

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        experiences = super().compute_advantages_and_returns(experiences)
        index = torch.tensor([place for experience in experiences for place in experience.index])
        rewards = torch.empty(len(index))
        rewards[index] = torch.cat([experience.rewards for experience in experiences])  # penalties of length included
        factors = group_factors(rewards.view(-1, self.args.rollout.n_samples_per_prompt)).flatten()[index]
        parts = factors.split([len(experience.index) for experience in experiences])
        for experience, factor in zip(experiences, parts, strict=True):
            experience.advantages *= factor[:, None]
        return experiences


def fill_up(samples: list[Experience], count: int) -> list[Experience]:
    """`samples`, and as many that do not count as are missing from `count`.

    Every process and micro batch then has the shape that DeepSpeed expects, whatever dynamic filtering left. A sample
    without response tokens is in no mean of the loss.
    """
    return samples + [_silent(samples[0]) for _ in range(count - len(samples))]


def _silent(sample: Experience) -> Experience:
    """The first two tokens of a sample, neither of which is trained on."""
    silent = copy.copy(sample)
    silent.sequences, silent.attention_mask = sample.sequences[:, :2], sample.attention_mask[:, :2]
    silent.action_mask = torch.zeros_like(sample.action_mask[:, :1])
    silent.rollout_log_probs = torch.zeros_like(sample.rollout_log_probs[:, :1])
    silent.response_length, silent.total_length = torch.tensor([0]), torch.tensor([2.0])
    silent.rewards, silent.truncated = torch.zeros_like(sample.rewards), torch.tensor([False])
    silent.info = {name: torch.zeros_like(value) for name, value in sample.info.items()}
    return silent
