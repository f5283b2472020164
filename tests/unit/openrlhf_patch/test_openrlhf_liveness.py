"""The watch over vLLM's engines, with engines that die when they are told to. tests/integration/ has a real one."""

import signal
import threading
import time

import pytest

from openrlhf_patch import liveness
from openrlhf_patch.liveness import INTERRUPT, EngineDiedError, EngineWatch
from tests.limits import Deadline


class Engine:
    def __init__(self):
        self.dies = threading.Event()
        self.until_dead = self

    def remote(self):
        return self.dies


@pytest.fixture
def engine(monkeypatch):
    """One whose death is an error of two lines."""

    def wait(deaths, timeout):
        (death,) = deaths
        return (deaths, []) if death.wait(timeout) else ([], deaths)

    def get(deaths):
        if deaths:
            raise ValueError("the actor died\n  out of memory\n")

    monkeypatch.setattr(liveness.ray, "wait", wait)
    monkeypatch.setattr(liveness.ray, "get", get)
    return Engine()


def work():
    """As Ray's calls do, which look for signals now and then."""
    deadline = Deadline(30)
    while not deadline.passed():
        time.sleep(0.1)
    pytest.fail("nobody was interrupted")


@pytest.mark.parametrize("sigint", [signal.default_int_handler, signal.SIG_IGN])
def test_the_death_of_an_engine_interrupts_the_training_and_is_its_error(engine, sigint):
    before = signal.signal(signal.SIGINT, sigint)
    try:
        with pytest.raises(EngineDiedError, match=r"^a vLLM engine died: out of memory$"), EngineWatch() as watch:
            assert watch.watching(lambda *engines: list(engines))(engine) == [engine]
            engine.dies.set()
            work()
    finally:
        signal.signal(signal.SIGINT, before)


def test_engines_that_end_with_the_training_interrupt_nothing(engine):
    handler = signal.getsignal(INTERRUPT)
    with EngineWatch() as watch:
        watch.watching(lambda: [engine])()
    engine.dies.set()
    time.sleep(0.2)
    assert watch.error is None and signal.getsignal(INTERRUPT) is handler


def test_a_watch_that_is_left_asks_ray_for_nothing_more(engine):
    """A thread that asked Ray for something after its shutdown gave a finished training status 1."""
    before = threading.active_count()
    with EngineWatch() as watch:
        watch.watching(lambda: [engine])()
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_another_interrupt_stays_what_it_is(engine):
    with pytest.raises(KeyboardInterrupt), EngineWatch() as watch:
        watch.watching(lambda: [engine])()
        raise KeyboardInterrupt
    engine.dies.set()
