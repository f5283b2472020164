"""Decode iterations of inference engines, in closed form where no limit binds and event by event where one does [ours].

An engine with continuous batching decodes one token per running sequence in every iteration. An iteration of b running
sequences takes per_position + per_row b seconds (`sagc.simulation.step_time.StepTime`), so that a rollout takes

    per_position x iterations + per_row x tokens + per_prefilled_token x tokens prefilled

whatever the order of the sequences; with everything resident the iterations are those of the longest response. A
limit on running sequences or on the tokens in the KV cache makes sequences wait, and so adds iterations. Simplified
against vLLM (v1/core/sched/scheduler.py): blocks of one token, no sharing of a prompt's cache between its responses,
and prefill as tokens that cost time but no iterations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NEVER = np.iinfo(np.int32).max
CHUNK = 2**18  # lengths that the event loop works on at a time: few enough for the cache


@dataclass(frozen=True)
class EngineWork:
    """What engines do for one rollout, an entry per engine.

    Attributes
    ----------
    iterations : numpy.ndarray
        Decode iterations until the last response has ended.
    rows : numpy.ndarray
        Sum over the iterations of the rows in them: tokens with continuous batching, slots with padded rows.
    prefilled : numpy.ndarray
        Tokens of prompts, and of responses that were preempted and had to be computed again.
    preemptions : numpy.ndarray
        Sequences thrown out of the KV cache.
    """

    iterations: np.ndarray
    rows: np.ndarray
    prefilled: np.ndarray
    preemptions: np.ndarray


def padded_work(lengths: np.ndarray, prompt_tokens: int) -> EngineWork:
    """Work of engines that keep every row until all have ended, as transformers' `generate` does.

    Parameters
    ----------
    lengths : numpy.ndarray
        (..., sequences) tokens per engine; 0 stands for no sequence.
    prompt_tokens : int
        Tokens of every prompt.
    """
    rows = np.count_nonzero(lengths, axis=-1)
    longest = lengths.max(axis=-1).astype(np.int64)
    return EngineWork(longest, rows * longest, rows * prompt_tokens, np.zeros_like(longest))


def continuous_work(
    lengths: np.ndarray, prompt_tokens: int, max_running: int | None = None, kv_tokens: int | None = None
) -> EngineWork:
    """Work of engines with continuous batching.

    Sequences are admitted in the order given, as long as they fit. When the tokens of the next iteration would not fit
    the KV cache, the sequence admitted last is thrown out and waits at the head of the queue; once it fits again, its
    prompt and what it had generated are prefilled. Nothing is admitted in an iteration that throws one out.

    Parameters
    ----------
    lengths : numpy.ndarray
        (..., sequences) tokens per engine; 0 stands for no sequence.
    prompt_tokens : int
        Tokens of every prompt, which stay in the KV cache with those generated.
    max_running : int, optional
        Sequences in an iteration at most (vLLM's max_num_seqs).
    kv_tokens : int, optional
        Tokens in the KV cache at most.

    Raises
    ------
    ValueError
        Where a single sequence is larger than the cache.
    """
    count = np.count_nonzero(lengths, axis=-1)
    tokens = lengths.sum(axis=-1, dtype=np.int64)
    iterations = lengths.max(axis=-1).astype(np.int64)
    prefilled, preemptions = count * prompt_tokens, np.zeros_like(iterations)
    if kv_tokens is not None and (largest := prompt_tokens + int(iterations.max(initial=0))) > kv_tokens:
        raise ValueError(f"kv_tokens is {kv_tokens}, and a sequence of {largest} tokens must fit")
    bound = _is_bound(lengths, count, tokens, prompt_tokens, max_running, kv_tokens)
    if bound.any():
        some = lengths[bound]
        at_once = max(1, CHUNK // some.shape[1])
        limits = prompt_tokens, min(max_running or NEVER, NEVER), min(kv_tokens or NEVER, NEVER)
        parts = [_decode(some[first : first + at_once], *limits) for first in range(0, len(some), at_once)]
        iterations[bound], again, preemptions[bound] = (np.concatenate(part) for part in zip(*parts, strict=True))
        prefilled[bound] = again
    return EngineWork(iterations, tokens, prefilled, preemptions)


def _is_bound(lengths, count, tokens, prompt_tokens, max_running, kv_tokens) -> np.ndarray:
    """The engines at which a limit makes a sequence wait."""
    bound = np.zeros(count.shape, dtype=bool)
    if max_running is not None:
        bound |= count > max_running
    if kv_tokens is not None:
        close = ~bound & (tokens + count * prompt_tokens > kv_tokens)  # the sum is never below the largest demand
        ordered = np.sort(lengths[close], axis=-1).astype(np.int64)
        running = np.where(ordered > 0, np.arange(ordered.shape[-1], 0, -1), 0)
        bound[close] = (running * (prompt_tokens + ordered)).max(axis=-1, initial=0) > kv_tokens
    return bound


def _decode(lengths, prompt_tokens: int, max_running: int, kv_tokens: int):
    """(iterations, tokens prefilled, preemptions) of (engines, sequences) lengths, event by event."""
    iterations, prefilled, preemptions = np.zeros((3, len(lengths)), dtype=np.int64)
    places, engines = np.arange(len(lengths)), _Engines(lengths, prompt_tokens, max_running, kv_tokens)
    while len(places):
        active = engines.advance()
        if np.count_nonzero(active) <= len(places) // 2:  # those that are done are only in the way
            done = places[~active]
            iterations[done], prefilled[done] = engines.clock[~active], engines.prefilled[~active]
            preemptions[done] = engines.preemptions[~active]
            places = places[active]
            engines.keep(active)
    return iterations, prefilled, preemptions


class _Engines:
    """Engines that each go from event to event, all at once.

    Sequences are admitted in order and the last one admitted is thrown out first, so the queue is always what lies
    beyond one place, `head`; the sequences before it run or have ended. Nothing can be admitted after one was thrown
    out before another has ended: the head of the queue is the one that did not fit. Arrays are (sequences, engines),
    as a minimum over their first axis is much the faster.
    """

    def __init__(self, lengths: np.ndarray, prompt_tokens: int, max_running: int, kv_tokens: int):
        engines, self.width = lengths.shape
        self.prompt_tokens, self.max_running, self.kv_tokens = prompt_tokens, max_running, kv_tokens
        self.lengths = np.ascontiguousarray(lengths.T, dtype=np.int32)
        # Tokens still to generate, and one place more to look at beyond the queue.
        self.left = np.concatenate([self.lengths, np.zeros((1, engines), np.int32)])
        self.ends = np.full((self.width, engines), NEVER, dtype=np.int32)  # iteration that ends a running sequence
        zeros = np.zeros((6, engines), dtype=np.int64)
        self.head, self.running, self.used, self.clock, self.prefilled, self.preemptions = zeros
        self.may_admit = np.ones(engines, dtype=bool)

    def keep(self, some: np.ndarray) -> None:
        """Forget the other engines."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, value[..., some])

    def advance(self) -> np.ndarray:
        """Throw out and admit what has to be, then decode until the next event. Returns which engines still run."""
        full = np.flatnonzero(self.used + self.running > self.kv_tokens)
        while len(full):
            self._throw_out(full)
            full = full[self.used[full] + self.running[full] > self.kv_tokens]
        open_ = np.flatnonzero(self.may_admit)
        while len(open_):
            open_ = self._admit(open_)
        active = self.running > 0
        self._decode(active)
        return active

    def _throw_out(self, engines: np.ndarray) -> None:
        """Put the sequence admitted last back at the head of the queue; it keeps what it has generated."""
        runs = self.ends[:, engines] != NEVER
        last = self.width - 1 - np.argmax(runs[::-1], axis=0)
        self.left[last, engines] = self.ends[last, engines] - self.clock[engines]
        self.ends[last, engines] = NEVER
        self.head[engines] = last
        self.running[engines] -= 1
        self.used[engines] -= self.prompt_tokens + self.lengths[last, engines] - self.left[last, engines]
        self.preemptions[engines] += 1
        self.may_admit[engines] = False

    def _admit(self, engines: np.ndarray) -> np.ndarray:
        """Admit the head of the queue of these engines where it fits. Returns where it did."""
        # Sequences that have ended lie beyond the head where one before them was thrown out.
        while len(gap := engines[(self.head[engines] < self.width) & (self.left[self.head[engines], engines] == 0)]):
            self.head[gap] += 1
        engines = engines[self.head[engines] < self.width]
        at = self.head[engines]
        prefilled = self.prompt_tokens + self.lengths[at, engines] - self.left[at, engines]
        demand = self.used[engines] + self.running[engines] + prefilled + 1
        fits = (self.running[engines] < self.max_running) & (demand <= self.kv_tokens)
        engines, at, prefilled = engines[fits], at[fits], prefilled[fits]
        self.ends[at, engines] = self.clock[engines] + self.left[at, engines]
        self.used[engines] += prefilled
        self.prefilled[engines] += prefilled
        self.running[engines] += 1
        self.head[engines] += 1
        return engines

    def _decode(self, decoding: np.ndarray) -> None:
        """Until a sequence ends or no further iteration fits the cache; all that end together leave together."""
        until_end = self.ends.min(axis=0) - self.clock
        until_full = (self.kv_tokens - self.used) // np.maximum(self.running, 1)
        passed = np.where(decoding, np.minimum(until_end, until_full), 0)
        self.clock += passed
        self.used += passed * self.running
        ended = decoding & (until_end <= until_full)
        now = np.where(ended, self.clock, -1).astype(np.int32)
        place, engines = divmod(np.flatnonzero(self.ends == now), len(now))
        np.subtract.at(self.running, engines, 1)
        np.subtract.at(self.used, engines, self.prompt_tokens + self.lengths[place, engines])
        self.left[place, engines], self.ends[place, engines] = 0, NEVER
        self.may_admit = ended
