"""The driver's watch over vLLM's engines: the death of one ends the run at once, and is its error.

Upstream sees it when it next asks that engine for something. When it sets up the weight sync, it asks and does not wait
for the answer: the policy then waits five minutes for an engine that is not there, and fails with an error about the
store in which they were to meet.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType

import ray

# Ray's calls end early for a KeyboardInterrupt alone. SIGINT cannot be what brings it, as it is ignored in a command
# that a script starts in the background; this signal has no other use here, and none is really sent.
INTERRUPT = signal.SIGURG
LOOK_S = 0.5  # seconds between two looks at whether the training is over


class EngineDiedError(RuntimeError):
    """An engine did not start, or has ended; the message is the last line of its error."""


class EngineWatch:
    """Context of the training, in the driver's main thread, which is interrupted when an engine dies.

    Once the context is left, the watch asks Ray for nothing more: a thread that does so after `ray.shutdown` ends the
    process with status 1.

    Raises
    ------
    EngineDiedError
        In place of that interrupt.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.over = False
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> "EngineWatch":
        self.previous = signal.signal(INTERRUPT, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.over = True
        for thread in self.threads:
            thread.join()
        signal.signal(INTERRUPT, self.previous)
        if kind is KeyboardInterrupt and self.error is not None:
            said = [line.strip() for line in str(self.error).splitlines() if line.strip()]
            raise EngineDiedError(f"a vLLM engine died: {(said or [type(self.error).__name__])[-1]}") from self.error

    def watching(self, create: Callable[..., list]) -> Callable[..., list]:
        """Upstream's `create_vllm_engines`, whose engines are watched from their creation on."""

        def created(*arguments, **options) -> list:
            engines = create(*arguments, **options)
            self.threads.append(threading.Thread(target=self._watch, args=(engines,), daemon=True))
            self.threads[-1].start()
            return engines

        return created

    def _watch(self, engines: Sequence) -> None:
        try:
            deaths = [engine.until_dead.remote() for engine in engines]
            while not self.over:
                dead, _ = ray.wait(deaths, timeout=LOOK_S)
                ray.get(dead)  # raises the error of one that is
        except Exception as error:  # whatever Ray and vLLM raise
            if not self.over:
                self.error = error
                _thread.interrupt_main(INTERRUPT)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.error is not None:
            raise KeyboardInterrupt
