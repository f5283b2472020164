"""Padded generation batches of TRL's GRPOTrainer: select rows, join rounds, fill up, split.

A batch is the dictionary that `GRPOTrainer._generate_and_score_completions` returns: tensors with one row per response,
`prompt_*` padded on the left, values per response token padded on the right, and the scalar `num_items_in_batch`.
"""

import torch
import torch.nn.functional as F

PROMPT_KEYS = ("prompt_ids", "prompt_mask")
ROW_KEYS = ("advantages",)
TOKEN_KEYS = (
    "completion_ids",
    "completion_mask",
    "tool_mask",
    "old_per_token_logps",
    "ref_per_token_logps",
    "sampling_per_token_logps",
    "importance_sampling_ratio",
)
SCALAR_KEYS = ("num_items_in_batch",)
KEYS = {*PROMPT_KEYS, *ROW_KEYS, *TOKEN_KEYS, *SCALAR_KEYS}

Batch = dict[str, torch.Tensor]


def loss_mask(batch: Batch) -> torch.Tensor:
    """The tokens that the loss counts, shape (rows, response tokens)."""
    mask = batch["completion_mask"]
    return mask * batch["tool_mask"] if "tool_mask" in batch else mask


def select_rows(batch: Batch, rows: list[int]) -> Batch:
    """The given rows, in the given order.

    Raises
    ------
    ValueError
        If the batch has images, whose rows are not aligned.
    """
    unknown = set(batch) - KEYS
    if unknown:
        raise ValueError(f"dynamic sampling does not support batches with {', '.join(sorted(unknown))}")
    return {key: value if key in SCALAR_KEYS else value[rows] for key, value in batch.items()}


def concatenate(batches: list[Batch], pad_token_id: int) -> Batch:
    """Stack batches, padded to the longest prompt and the longest response among them."""
    joined = {}
    for key, value in batches[0].items():
        if key in SCALAR_KEYS:
            continue
        parts = [batch[key] for batch in batches]
        if value.dim() > 1:
            width = max(part.size(1) for part in parts)
            fill = pad_token_id if key.endswith("_ids") else 0
            parts = [_pad(part, width - part.size(1), fill, left=key in PROMPT_KEYS) for part in parts]
        joined[key] = torch.cat(parts)
    return joined


def silence(batch: Batch) -> Batch:
    """The same rows with no effect on the loss: all tokens masked, all advantages zero."""
    quiet = dict(batch)
    quiet["completion_mask"] = torch.zeros_like(batch["completion_mask"])
    quiet["advantages"] = torch.zeros_like(batch["advantages"])
    return quiet


def fill_to(batch: Batch, rows: int, pad_token_id: int) -> Batch:
    """Append silent rows until the batch has `rows` of them."""
    missing = rows - batch["advantages"].size(0)
    if not missing:
        return batch
    return concatenate([batch, silence(select_rows(batch, [0] * missing))], pad_token_id)


def split_by_length(batch: Batch, parts: int) -> list[Batch]:
    """Equal parts of similar response length, each cut to its own longest response.

    The gradient summed over the parts is the same as for any other equal split; only the amount of padding changes.
    """
    lengths = batch["completion_mask"].sum(dim=1)
    order = torch.argsort(lengths, stable=True)
    return [trim(select_rows(batch, rows.tolist())) for rows in order.tensor_split(parts)]


def trim(batch: Batch) -> Batch:
    """Cut the columns that hold only padding."""
    prompt = int(batch["prompt_mask"].any(dim=0).sum())
    response = max(1, int(batch["completion_mask"].any(dim=0).sum()))
    trimmed = {}
    for key, value in batch.items():
        if key in PROMPT_KEYS:
            value = value[:, value.size(1) - prompt :]
        elif key in TOKEN_KEYS and value.size(1) > 1:
            value = value[:, :response]
        trimmed[key] = value
    return trimmed


def _pad(values: torch.Tensor, count: int, fill: int, left: bool) -> torch.Tensor:
    return F.pad(values, (count, 0) if left else (0, count), value=fill) if count else values
