"""GRPO on sums, with a group size that SAGC controls: GRPOTrainer with another name and two more arguments."""

import re

import torch
from datasets import Dataset
from trl import GRPOConfig

from sagc import SAGC
from sagc.trace import TraceWriter
from sagc.trl import SagcGRPOTrainer

MODEL = "Qwen/Qwen2.5-0.5B"  # any causal language model
STEPS = 100
GPU = torch.cuda.is_available()

sums = [(a, b) for a in range(100, 300) for b in range(10, 20)]
data = Dataset.from_list([{"prompt": f"Question: {a} + {b} = ?\nAnswer:", "answer": str(a + b)} for a, b in sums])


def reward(completions, answer, **columns):
    """1.0 if the first number of the response is the sum."""
    numbers = [re.findall(r"\d+", completion)[:1] for completion in completions]
    return [float(found == [right]) for found, right in zip(numbers, answer, strict=True)]


controller = SAGC(ladder=(4, 8, 16), start=16, delta=0.5)
trainer = SagcGRPOTrainer(
    MODEL,
    reward,
    args=GRPOConfig(
        output_dir="sums",
        max_steps=STEPS,
        num_generations=16,  # the first group size
        per_device_train_batch_size=16,  # responses per micro batch at that size
        gradient_accumulation_steps=8,  # 8 x 16 responses: 8 prompts per step, whatever the group size
        max_completion_length=64,
        report_to="none",
        use_cpu=not GPU,
        bf16=GPU,
    ),
    train_dataset=data,
    controller=controller,
    on_step=TraceWriter("sums/trace.jsonl").append,
)
trainer.train()
print(controller)
