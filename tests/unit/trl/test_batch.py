"""Padded batches: rows keep their tokens through selecting, joining, filling and splitting."""

import pytest
import torch

from sagc.trl import batch as batches

PAD = 9


def make(prompts, responses):
    """A batch of the given token lists, padded as TRL pads: prompts on the left, responses on the right."""
    wide, long = max(map(len, prompts)), max(map(len, responses))
    return {
        "prompt_ids": torch.tensor([[PAD] * (wide - len(p)) + p for p in prompts]),
        "prompt_mask": torch.tensor([[0] * (wide - len(p)) + [1] * len(p) for p in prompts]),
        "completion_ids": torch.tensor([r + [PAD] * (long - len(r)) for r in responses]),
        "completion_mask": torch.tensor([[1] * len(r) + [0] * (long - len(r)) for r in responses]),
        "advantages": torch.arange(1.0, len(prompts) + 1),
        "num_items_in_batch": torch.tensor(sum(map(len, responses))),
    }


def rows(batch):
    """(prompt, response, advantage) per row, without the padding."""
    return [
        (ids[mask.bool()].tolist(), tokens[kept.bool()].tolist(), float(advantage))
        for ids, mask, tokens, kept, advantage in zip(
            *(batch[k] for k in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")),
            strict=True,
        )
    ]


ONE = make([[1], [1, 2]], [[3, 4, 5], [6]])
TWO = make([[1, 2, 3], [4]], [[5], [6, 7, 8, 1, 2]])


def test_joined_rows_keep_their_tokens():
    joined = batches.concatenate([ONE, TWO], PAD)
    assert rows(joined) == rows(ONE) + rows(TWO)
    assert joined["prompt_ids"].shape == (4, 3)
    assert joined["completion_ids"].shape == (4, 5)
    assert (joined["completion_ids"][joined["completion_mask"] == 0] == PAD).all()
    assert "num_items_in_batch" not in joined, "it is of the whole rollout and has to be counted anew"


def test_selected_rows_come_in_the_order_asked_for():
    assert rows(batches.select_rows(TWO, [1, 0, 1])) == [rows(TWO)[i] for i in (1, 0, 1)]


def test_filled_up_rows_do_not_count():
    filled = batches.fill_to(ONE, 5, PAD)
    assert rows(filled)[:2] == rows(ONE)
    assert batches.loss_mask(filled)[2:].sum() == 0
    assert (filled["advantages"][2:] == 0).all()
    assert batches.fill_to(ONE, 2, PAD) is ONE


def test_a_split_has_each_row_once_in_parts_of_like_length_without_shared_padding():
    joined = batches.concatenate([ONE, TWO], PAD)
    parts = batches.split_by_length(joined, 2)
    assert sorted(row for part in parts for row in rows(part)) == sorted(rows(joined))
    assert [part["completion_ids"].size(1) for part in parts] == [1, 5]
    assert [part["prompt_ids"].size(1) for part in parts] == [3, 1]


def test_the_loss_mask_leaves_out_what_a_tool_wrote():
    with_tools = {**ONE, "tool_mask": torch.tensor([[1, 0, 1], [1, 1, 1]])}
    assert batches.loss_mask(with_tools).tolist() == [[1, 0, 1], [1, 0, 0]]


def test_images_are_refused():
    with pytest.raises(ValueError, match="dynamic sampling does not support batches with pixel_values"):
        batches.select_rows({**ONE, "pixel_values": torch.zeros(2)}, [0])
