"""The metrics of a benchmark, from its samples."""

from collections import Counter
from math import comb
from statistics import mean, median, stdev
from typing import Any


def benchmark_metrics(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """All metrics of one benchmark.

    Parameters
    ----------
    samples : list of dict
        One problem each, with a value per response in `rewards` (1.0 is correct), `extracted` (the answer found, or
        None), `unchecked`, `output_tokens` and `cut_off`.

    Returns
    -------
    dict
        accuracy : avg@k, the mean over problems of the mean reward over the k responses.
        accuracy_se : its standard error, clustered by problem: the standard deviation of the problems' means (with
        n - 1), over the square root of the number of problems; None for a single problem.
        pass_at : mean over problems of `pass_at_k`, for k = 1, 2, 4, ... and all responses, by k as text.
        majority : mean over problems of `majority` over all responses, maj@k.
        problems, samples : problems, and responses to them.
        output_tokens, output_tokens_median : response length in tokens, end token included, counted as generated.
        cut_off_rate : share of responses that the limit ended.
        no_answer_rate : share of responses without an answer that can be extracted.
        unchecked : responses whose check failed (a parser that hung, an unreadable reference answer); counted as wrong.
    """
    means = [mean(problem["rewards"]) for problem in samples]
    tokens = [count for problem in samples for count in problem["output_tokens"]]
    fewest = min(len(problem["rewards"]) for problem in samples)
    return {
        "accuracy": mean(means),
        "accuracy_se": stdev(means) / len(means) ** 0.5 if len(means) > 1 else None,
        "pass_at": {str(k): mean(pass_at_k(problem["rewards"], k) for problem in samples) for k in _powers(fewest)},
        "majority": mean(majority(problem["extracted"], problem["rewards"]) for problem in samples),
        "problems": len(samples),
        "samples": len(tokens),
        "output_tokens": mean(tokens),
        "output_tokens_median": median(tokens),
        "cut_off_rate": _share(samples, "cut_off"),
        "no_answer_rate": mean(float(answer is None) for problem in samples for answer in problem["extracted"]),
        "unchecked": sum(sum(problem["unchecked"]) for problem in samples),
    }


def pass_at_k(rewards: list[float], k: int) -> float:
    """The probability that at least one of k of these responses is correct, k drawn without repeats.

    The unbiased estimator of Chen et al. 2021 (Evaluating Large Language Models Trained on Code, section 2.1):
    1 - C(n - c, k) / C(n, k) for c correct ones of n.

    Raises
    ------
    ValueError
        If k is below 1 or above n.
    """
    n, correct = len(rewards), sum(reward == 1.0 for reward in rewards)
    if not 1 <= k <= n:
        raise ValueError(f"k is {k}, and there are {n} responses to the problem")
    return 1 - comb(n - correct, k) / comb(n, k)


def majority(extracted: list[str | None], rewards: list[float]) -> float:
    """1.0 if the most frequent answer is correct, else 0.0; ties give the share of correct ones.

    Correct answers all count as one, however they are written; wrong ones count as one if their text is the same.
    Responses without an answer do not vote; without any vote the result is 0.0.
    """
    votes = Counter(
        "" if reward == 1.0 else f"wrong {answer}"
        for answer, reward in zip(extracted, rewards, strict=True)
        if answer is not None
    )
    most = max(votes.values(), default=0)
    winners = [answer for answer, count in votes.items() if count == most]
    return sum(answer == "" for answer in winners) / len(winners) if winners else 0.0


def _powers(n: int) -> list[int]:
    """1, 2, 4, ... and n."""
    return sorted({2**i for i in range(n.bit_length())} | {n})


def _share(samples: list[dict[str, Any]], flag: str) -> float:
    return mean(float(value) for problem in samples for value in problem[flag])
