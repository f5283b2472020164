"""Trains 4 DAPO steps with SAGC in however many processes it is started with; run by test_trl.py through torchrun.

Responses depend on the prompt and on the place in the group alone, so that one and two processes see the same.
"""

import json
import os
import sys

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig

from sagc import SAGC
from sagc.tiny.tokenizer import build_tokenizer
from sagc.trl import SagcGRPOTrainer

TOKENIZER = build_tokenizer()


def model():
    torch.manual_seed(0)
    shape = dict(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1
    )
    ids = dict(eos_token_id=TOKENIZER.eos_token_id, pad_token_id=TOKENIZER.pad_token_id, bos_token_id=None)
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=len(TOKENIZER), **shape, **ids)).float()


def rollout(prompts, trainer):
    size, responses = trainer.num_generations, []
    for i, prompt in enumerate(prompts):
        number = int(prompt.split()[0].removesuffix("x")) * 7 + i % size * 3
        length = 11 if number % 5 == 0 else 1 + number % 3
        responses.append([10 + number % 20] * length + [TOKENIZER.eos_token_id])
    ids = [TOKENIZER(prompt).input_ids for prompt in prompts]
    return {"prompt_ids": ids, "completion_ids": responses, "logprobs": None}


def reward(period, uninformative):
    """Rewards that are all equal for the rows whose remainder is among the uninformative ones."""

    def score(completion_ids, row, **columns):
        return [
            0.0 if index % period in uninformative else float(ids[0] % 2)
            for ids, index in zip(completion_ids, row, strict=True)
        ]

    return score


def train(folder, period, uninformative, max_rounds):
    records = []
    size, prompts, parts = 8, 4, 2  # parts: micro batches per process
    arguments = GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="no",
        num_generations=size,
        per_device_train_batch_size=size * prompts // parts // int(os.environ["WORLD_SIZE"]),
        gradient_accumulation_steps=parts,
        max_steps=4,
        max_completion_length=12,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        loss_type="dapo",
        shuffle_dataset=False,
    )
    trainer = SagcGRPOTrainer(
        model(),
        reward(period, uninformative),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": [f"{2 + i % 7}x +1 = 9 :" for i in range(40)], "row": range(40)}),
        processing_class=TOKENIZER,
        rollout_func=rollout,
        controller=SAGC(ladder=(4, 6, 8), start=8, delta=0.1, eta=4.0, seed=0),
        max_rounds=max_rounds,
        on_step=records.append,
    )
    trainer.train()
    states = gather_object([json.dumps(trainer.controller.state_dict(), sort_keys=True)])
    weights = torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])
    return {
        "processes": arguments.world_size,
        "controllers_agree": len(set(states)) == 1,
        "records": [{k: v for k, v in vars(record).items() if not k.endswith("_s")} for record in records],
        "weights": weights.tolist(),
    }


def main(out):
    results = {
        # Rows 1 and 3 of every six are dropped, one on each process, and the other two take their place.
        "replaced": train(out + ".a", period=6, uninformative=(1, 3), max_rounds=3),
        # Rows 2 and 3 of every four are dropped: of two processes, the second keeps nothing.
        "one process keeps nothing": train(out + ".b", period=4, uninformative=(2, 3), max_rounds=1),
    }
    if os.environ["RANK"] == "0":
        with open(out, "w", encoding="utf-8") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main(sys.argv[1])
