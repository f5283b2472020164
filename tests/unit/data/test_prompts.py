"""The order of the prompts: every prompt once per epoch, the same for a seed, resumable anywhere."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagc.data.stream import PromptStream

sizes = st.integers(1, 20)
counts = st.lists(st.integers(0, 30), max_size=8)


@given(sizes, st.integers(0, 5), st.booleans(), counts)
def test_every_epoch_holds_every_prompt_once_however_many_are_taken_at_a_time(size, seed, shuffle, takes):
    stream = PromptStream(size, seed, shuffle)
    drawn = [index for count in takes for index in stream.take(count)]
    assert len(drawn) == sum(takes)
    for first in range(0, len(drawn), size):
        epoch = drawn[first : first + size]
        assert len(set(epoch)) == len(epoch)
        assert set(epoch) <= set(range(size))


@given(sizes, counts, st.integers(0, 30))
def test_a_resumed_stream_goes_on_as_the_unbroken_one(size, takes, rest):
    stream = PromptStream(size, seed=3)
    for count in takes:
        stream.take(count)
    state = json.loads(json.dumps(stream.state_dict()))
    resumed = PromptStream(size, seed=3)
    resumed.load_state_dict(state)
    assert resumed.take(rest) == stream.take(rest)


def test_epochs_and_seeds_have_orders_of_their_own():
    one, other = PromptStream(50, seed=0), PromptStream(50, seed=1)
    first, second = one.take(50), one.take(50)
    assert first != second
    assert first != other.take(50)
    assert PromptStream(50, seed=0).take(50) == first


def test_other_or_no_data_is_refused():
    with pytest.raises(ValueError, match="holds no prompts"):
        PromptStream(0, seed=0)
    saved = PromptStream(5, seed=0)
    saved.take(4)
    with pytest.raises(ValueError, match="holds 3 prompts, but held 5 when the state was saved"):
        PromptStream(3, seed=0).load_state_dict(saved.state_dict())
