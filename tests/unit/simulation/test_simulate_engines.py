"""Engines against a reference that decodes token by token, and their work by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagc.simulation.engines import continuous_work, padded_work

properties = settings(deadline=None, max_examples=300)


def decode_token_by_token(lengths, prompt_tokens, max_running, kv_tokens):
    """(iterations, rows, tokens prefilled, preemptions) of one engine, as vLLM's scheduler goes about it."""
    queue = [{"left": length, "generated": 0} for length in lengths if length]
    running, iterations, rows, prefilled, preemptions = [], 0, 0, 0, 0
    while queue or running:
        held = lambda some: sum(prompt_tokens + one["generated"] + 1 for one in some)  # noqa: E731
        thrown_out = False
        while held(running) > kv_tokens:
            queue.insert(0, running.pop())
            preemptions, thrown_out = preemptions + 1, True
        while not thrown_out and queue and len(running) < max_running and held([*running, queue[0]]) <= kv_tokens:
            running.append(queue.pop(0))
            prefilled += prompt_tokens + running[-1]["generated"]
        for one in running:
            one["generated"] += 1
            one["left"] -= 1
        iterations, rows = iterations + 1, rows + len(running)
        running = [one for one in running if one["left"]]
    return iterations, rows, prefilled, preemptions


@properties
@given(
    st.lists(st.lists(st.integers(0, 12), min_size=7, max_size=7), min_size=1, max_size=4),
    st.integers(0, 4),
    st.none() | st.integers(1, 8),
    st.none() | st.integers(16, 60),
)
def test_engines_do_what_the_token_by_token_reference_does(lengths, prompt_tokens, max_running, kv_tokens):
    work = continuous_work(np.array(lengths), prompt_tokens, max_running, kv_tokens)
    found = zip(work.iterations, work.rows, work.prefilled, work.preemptions, strict=True)
    limits = prompt_tokens, max_running or 10**9, kv_tokens or 10**9
    assert list(found) == [decode_token_by_token(engine, *limits) for engine in lengths]


def test_with_everything_resident_the_longest_response_counts():
    work = continuous_work(np.array([[3, 9, 4], [5, 0, 0]]), prompt_tokens=10)
    assert work.iterations.tolist() == [9, 5]
    assert work.rows.tolist() == [16, 5]
    assert work.prefilled.tolist() == [30, 10]


def test_a_running_limit_makes_waves():
    work = continuous_work(np.array([[4, 4, 4, 4]]), prompt_tokens=0, max_running=2)
    assert work.iterations.tolist() == [8] and work.rows.tolist() == [16]


def test_a_full_cache_throws_the_last_sequence_out():
    # Both fit with 1 + 4 tokens each; the fifth iteration of the first needs 6 + 6 of 11.
    work = continuous_work(np.array([[8, 8]]), prompt_tokens=1, kv_tokens=11)
    assert (work.iterations.tolist(), work.preemptions.tolist()) == ([8 + 4], [1])
    assert work.prefilled.tolist() == [1 + 1 + (1 + 4)]


def test_padded_rows_stay_until_the_last_has_ended():
    work = padded_work(np.array([[3, 9, 4], [5, 0, 0]]), prompt_tokens=10)
    assert work.iterations.tolist() == [9, 5]
    assert work.rows.tolist() == [27, 5]
    assert work.prefilled.tolist() == [30, 10]


def test_no_limit_that_does_not_bind_changes_anything():
    lengths = np.random.default_rng(0).integers(1, 50, (20, 8))
    free, limited = (continuous_work(lengths, 5, *limits) for limits in ((None, None), (8, 10_000)))
    assert all(
        np.array_equal(one, other) for one, other in zip(vars(free).values(), vars(limited).values(), strict=True)
    )


def test_a_sequence_larger_than_the_cache_is_refused():
    with pytest.raises(ValueError, match="kv_tokens is 10, and a sequence of 12 tokens must fit"):
        continuous_work(np.array([[2, 9]]), prompt_tokens=3, kv_tokens=10)
