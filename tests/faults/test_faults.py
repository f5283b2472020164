"""One moment of every kind of fault, each on one stack. `make faults` is the same at 20 moments, on both stacks."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.campaign import Unbroken, make_model
from tests.faults.kinds import KINDS


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """An outcome to wait for, per kind: two grids are at work at once."""
    folder = tmp_path_factory.mktemp("faults")
    model = make_model(folder)
    pool = ThreadPoolExecutor(2)
    unbroken = {stack: pool.submit(Unbroken, stack, model, folder) for stack in ("vanilla", "openrlhf")}
    yield {
        kind: pool.submit(lambda kind: unbroken[kind.stacks[0]].result().hit(kind, moment=0), kind) for kind in KINDS
    }
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_same_command_finishes_a_grid_that_was_hit_as_the_unbroken_one(kind, outcomes):
    outcome = outcomes[kind].result()
    if outcome.outcome.startswith("skipped"):
        pytest.skip(outcome.outcome)
    assert outcome.good, outcome
