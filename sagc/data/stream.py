"""The order in which prompts are drawn: endless, seeded, and resumable from two integers."""

import numpy as np


class PromptStream:
    """Indices into a dataset: one seeded permutation after another, without end.

    A trainer whose group size changes draws a number of prompts that it knows only when it generates; this stream gives
    as many as are asked for, so that none is lost at the end of an epoch and none is fetched before its time.

    Parameters
    ----------
    size : int
        Number of prompts in the dataset.
    seed : int
        Seed of the permutations; epoch e is shuffled by (seed, e).
    shuffle : bool
        Whether to shuffle; otherwise the prompts come in their own order.

    Examples
    --------
    >>> stream = PromptStream(3, seed=0, shuffle=False)
    >>> stream.take(2), stream.take(2)
    ([0, 1], [2, 0])
    """

    def __init__(self, size: int, seed: int, shuffle: bool = True):
        if size < 1:
            raise ValueError("the training data holds no prompts")
        self.size, self.seed, self.shuffle = size, seed, shuffle
        self._go_to(epoch=0, position=0)

    def take(self, count: int) -> list[int]:
        """The next `count` indices."""
        taken = []
        while len(taken) < count:
            if self.position == self.size:
                self._go_to(self.epoch + 1, 0)
            part = self._order[self.position : self.position + count - len(taken)]
            self.position += len(part)
            taken += part.tolist()
        return taken

    def state_dict(self) -> dict[str, int]:
        return {"size": self.size, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where another stream stood. Raises ValueError if that had another number of prompts."""
        if state["size"] != self.size:
            raise ValueError(
                f"the training data holds {self.size} prompts, and {state['size']} when the state was saved"
            )
        self._go_to(state["epoch"], state["position"])

    def _go_to(self, epoch: int, position: int) -> None:
        self.epoch, self.position = epoch, position
        rng = np.random.default_rng([self.seed, epoch])
        self._order = rng.permutation(self.size) if self.shuffle else np.arange(self.size)
