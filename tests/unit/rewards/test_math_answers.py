"""sagc.rewards.math_answers: answers are compared as mathematics, in threads too, and none can hold up training."""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import BrokenExecutor

import pytest

from sagc.rewards.answer_text import last_box, plain, readings
from sagc.rewards.math_answers import _begin, _begun, _check_in_process, _pool, check, check_all, check_soon
from sagc.rewards.registry import reward_function
from sagc.system.jsonl import as_text, parse_object

HANGS = r"so it is $\boxed{9^{9^{9^{9}}}}$"
SLOW = "70 " * 4_000 + "and therefore 70"  # about a second of processor time


def processes():
    return [process.pid for process in multiprocessing.active_children() if process.name == "math answers"]


@pytest.fixture
def own_pool(monkeypatch):
    """One process of this test alone, which has imported what it needs."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    pool, others = _pool.__wrapped__(), set(processes())
    monkeypatch.setattr("sagc.rewards.math_answers._pool", lambda: pool)
    assert check_all(["70"], ["70"])[0].correct
    yield lambda: next(pid for pid in processes() if pid not in others)
    pool.stop()
    pool.join()


@pytest.mark.parametrize(
    ("response", "answer", "equal"),
    [
        (r"half of it: $\boxed{\frac{1}{2}}$", "0.5", True),
        ("First 41, no: the answer is 42.", "42", True),
        (r"$\boxed{x^2 + 2x + 1}$", "(x+1)^2", True),
        (r"$\boxed{41}$", "42", False),
        ("I do not know", "42", False),
        ("", "42", False),
        ("x" * 100_000, "42", False),
        ("1 " * 50_000 + r"$\boxed{42}$", "42", True),
    ],
)
def test_answers_are_compared_as_mathematics(response, answer, equal):
    assert [found.correct for found in check_all([response], [answer])] == [equal]


def test_an_answer_that_hangs_the_parser_is_wrong_and_the_others_are_not(caplog):
    started = time.monotonic()
    checks = check_all([HANGS, r"$\boxed{3}$", HANGS, r"$\boxed{4}$"], ["3", "3", "3", "3"], timeout=3)
    assert [check.correct for check in checks] == [False, True, False, False]
    assert [check.found for check in checks] == [None, "3", None, "4"]
    assert [check.failure is None for check in checks] == [False, True, False, True]
    assert time.monotonic() - started < 30
    assert "counts as wrong: TimeoutError: it took more than 3 s of processor time" in caplog.text


def test_the_limit_is_processor_time_and_not_that_of_the_clock(own_pool):
    process, found = own_pool(), []
    thread = threading.Thread(target=lambda: found.extend(check_all([SLOW, "3"], ["70", "3"], timeout=3)))
    thread.start()
    time.sleep(0.2)
    os.kill(process, signal.SIGSTOP)  # as on a machine that is busy with other things
    time.sleep(3.5)
    os.kill(process, signal.SIGCONT)
    thread.join(timeout=60)
    assert [check.correct for check in found] == [True, True]


def test_a_process_that_dies_for_another_reason_is_said_and_costs_its_own_answer_alone(own_pool, caplog):
    process, found = own_pool(), []
    thread = threading.Thread(target=lambda: found.extend(check_all([HANGS, "3"], ["3", "3"], timeout=50)))
    thread.start()
    time.sleep(0.5)
    os.kill(process, signal.SIGKILL)  # as by a machine that is out of memory
    thread.join(timeout=60)
    assert [check.correct for check in found] == [False, True]
    assert "counts as wrong: ChildProcessError: its process was ended by SIGKILL" in caplog.text


def test_a_process_that_died_while_it_had_nothing_to_do_costs_no_answer(own_pool):
    os.kill(own_pool(), signal.SIGKILL)
    time.sleep(0.2)
    assert [check.correct for check in check_all(["3"], ["3"])] == [True]


def test_a_process_is_ended_also_where_this_one_ignores_the_signal(monkeypatch):
    before = signal.signal(signal.SIGPROF, signal.SIG_IGN)  # which processes inherit
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
    try:
        pool = _pool.__wrapped__()
        monkeypatch.setattr("sagc.rewards.math_answers._pool", lambda: pool)
        assert check_all([HANGS], ["3"], timeout=1)[0].failure.startswith("TimeoutError")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
        signal.signal(signal.SIGPROF, before)
        pool.stop()
        pool.join()


@pytest.mark.parametrize("part", [r"\,", r"\(", "1", "1,000<a>", "*", "_", "\\text{", "²", "答", r"\boxed{", " 000"])
def test_text_of_any_kind_is_read_in_a_time_that_leaves_enough_for_mathematics(part):
    started = time.process_time()
    last_box(part * 10_000), readings((part * 20_000)[:20_000]), plain((part * 20_000)[:20_000])
    assert time.process_time() - started < 2.5


@pytest.mark.parametrize(
    ("line", "response", "equal"),
    [
        ('{"answer": 0.00001}', r"\boxed{10^{-5}}", True),
        ('{"answer": 6.02e23}', r"\boxed{6.02\times 10^{23}}", True),
        ('{"answer": 602000000000000000000000}', r"\boxed{6.02\times 10^{23}}", True),
        ('{"answer": 1e22}', r"\boxed{10^{22}}", True),
        ('{"answer": 70.0}', r"\boxed{70}", True),
        ('{"answer": 0.00001}', r"\boxed{e-5}", False),
        ('{"answer": 6.02e23}', r"\boxed{6.03\times 10^{23}}", False),
    ],
)
def test_a_number_of_a_file_is_the_number_that_is_written_there(line, response, equal):
    assert check(response, as_text(parse_object(line)["answer"])).correct == equal


def test_the_reward_works_off_the_main_thread(monkeypatch):
    monkeypatch.setattr("sagc.rewards.math_answers.TIMEOUT_S", 3.0)
    found = []
    math = reward_function("math")
    columns = {"answer": ["3", "3"], "level": ["5", "5"]}
    thread = threading.Thread(target=lambda: found.extend(math(["p", "p"], [HANGS, r"$\boxed{3}$"], **columns)))
    thread.start()
    thread.join(timeout=60)
    assert found == [0.0, 1.0]


def test_messages_are_read_too():
    math = reward_function("math")
    assert math(["p"], [[{"role": "assistant", "content": r"$\boxed{3}$"}]], answer=[3]) == [1.0]


def test_a_response_without_its_answer_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        check_all(["3", "4"], ["3"])


def test_what_was_found_is_said_also_where_it_is_wrong_or_missing():
    found = check_all(
        ["first 3, then 4", "nothing", r"$\boxed{\frac{2}{4}}$", "003", "3"], ["3", "3", "0.5", "3", "Paris!?"]
    )
    assert [check.found for check in found] == ["4", None, "1/2", "3", "3"]
    assert [check.correct for check in found] == [False, False, True, True, False]
    assert [check.failure for check in found] == [*[None] * 4, "the reference answer 'Paris!?' is no mathematics"]


class Unreadable(str):
    def __reduce__(self):
        return int, ("no number",)


def test_processes_that_are_gone_are_an_error_and_not_wrong_answers(monkeypatch):
    pool = _pool.__wrapped__()
    monkeypatch.setattr("sagc.rewards.math_answers._pool", lambda: pool)
    with pytest.raises(BrokenExecutor):
        check_all([Unreadable("3")] * 3, ["3"] * 3)
    pool.stop()
    pool.join()


def test_a_check_that_was_begun_before_is_the_one_that_is_asked_for(monkeypatch):
    begun = []
    monkeypatch.setattr(
        "sagc.rewards.math_answers._begin", lambda pair, timeout, f=_begin: begun.append(pair) or f(pair, timeout)
    )
    check_soon(r"\boxed{3}", "3")
    check_soon(r"\boxed{4}", "3")
    check_soon(r"\boxed{3}", "3")
    found = check_all([r"\boxed{4}", r"\boxed{3}", r"\boxed{3}"], ["3", "3", "3"])
    assert [check.correct for check in found] == [False, True, True]
    assert begun == [(r"\boxed{3}", "3"), (r"\boxed{4}", "3"), (r"\boxed{3}", "3")]  # the last one anew
    assert not _begun


def test_the_imports_of_a_new_process_do_not_count_as_time_of_its_first_check():
    pool = _pool.__wrapped__()  # one of its own
    try:
        assert pool.schedule(_check_in_process, ("70", "70", 0.2)).result().correct
    finally:
        pool.stop()
        pool.join()
