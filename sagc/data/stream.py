"""The order in which prompts are drawn: endless, seeded, and resumable from two integers."""

import numpy as np


class PromptStream:
    """Indices into a dataset: an endless sequence of seeded permutations.

    A trainer with a changing group size knows how many prompts it needs only when it generates. This stream gives
    exactly as many as requested: none is lost at the end of an epoch, and none is fetched early.

    Parameters
    ----------
    size : int
        Number of prompts in the dataset.
    seed : int
        Seed of the permutations; epoch e is shuffled by (seed, e).
    shuffle : bool
        Whether to shuffle; otherwise the prompts come in their original order.

    Raises
    ------
    ValueError
        If the dataset is empty.

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
        """Continue from where another stream left off.

        Raises
        ------
        ValueError
            If that stream had a different number of prompts.
        """
        if state["size"] != self.size:
            raise ValueError(
                f"the training data holds {self.size} prompts, but held {state['size']} when the state was saved"
            )
        self._go_to(state["epoch"], state["position"])

    def _go_to(self, epoch: int, position: int) -> None:
        self.epoch, self.position = epoch, position
        rng = np.random.default_rng([self.seed, epoch])
        self._order = rng.permutation(self.size) if self.shuffle else np.arange(self.size)
