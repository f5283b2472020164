"""OpenRLHF's agent hook (--train.agent_func_path): one response per prompt, rewarded by sagc/rewards/registry.py.

It runs in the Ray worker of the vLLM engine, which loads this file by its path. The reward is computed off that
worker's main thread, so that generation goes on meanwhile.
"""

import asyncio

from openrlhf.utils.agent import SingleTurnAgentExecutor
from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind

from sagc.rewards.registry import reward_function


class AgentExecutor(SingleTurnAgentExecutor):
    """OpenRLHF's single turn, with a reward by name.

    Upstream's own reward functions get prompt and response decoded as one text, special tokens included; the rewards of
    sagc/rewards/registry.py read the response alone, and the prompt as it is in the data, as they do in the vanilla
    stack.
    """

    def __init__(self):
        super().__init__(remote_rm_url=None)

    async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
        quiet = ids_only(sampling_params)
        output = await super().execute(prompt, label, quiet, max_length, hf_tokenizer, llm_engine, images)
        ((start, end),) = output["action_ranges"]
        response = hf_tokenizer.decode(output["observation_tokens"][start:end], skip_special_tokens=True)
        columns = {name: [value] for name, value in label["columns"].items()}
        (reward,) = await asyncio.to_thread(reward_function(label["reward"]), [label["prompt"]], [response], **columns)
        return {**output, "reward": float(reward)}


def ids_only(sampling_params: SamplingParams) -> SamplingParams:
    """The same sampling, of which vLLM hands over the token ids and their log-probabilities alone, when all are there.

    By default it makes an output, with text, after every token, of which only the last is read here: for small models
    that takes this process as long as generation takes the engine.
    """
    quiet = sampling_params.clone()
    quiet.detokenize, quiet.output_kind = False, RequestOutputKind.FINAL_ONLY
    quiet.logprobs = None if sampling_params.logprobs is None else 0  # beside the sampled token's, that many
    return quiet
