"""One moment of every kind of fault, each on one stack. `make faults` is the same at 20 moments, on both stacks."""

import copy
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.campaign import Unbroken, make_model, remove
from tests.faults.grid import FaultyGrid, different
from tests.faults.kinds import KINDS, ReadOnly, Unable, mount


@pytest.fixture(scope="module")
def pool():
    """Two grids are at work at once."""
    with ThreadPoolExecutor(2) as executor:
        yield executor
        executor.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def unbroken(pool, tmp_path_factory):
    """A grid to wait for, per stack."""
    folder = tmp_path_factory.mktemp("faults")
    model = make_model(folder)
    return {stack: pool.submit(Unbroken, stack, model, folder) for stack in ("vanilla", "openrlhf")}


@pytest.fixture(scope="module")
def outcomes(pool, unbroken):
    """An outcome to wait for, per kind."""

    def hit(kind):
        return unbroken[kind.stacks[0]].result().hit(kind, moments=[0])

    return {kind: pool.submit(hit, kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_same_command_finishes_a_grid_that_was_hit_as_the_unbroken_one(kind, outcomes):
    [outcome] = outcomes[kind].result()
    if outcome.outcome.startswith("skipped"):
        pytest.skip(outcome.outcome)
    assert outcome.good, outcome


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "file", "said"),
    [
        (
            lambda path: path.write_text(path.read_text().replace('"truncated":', '"truncated":9')),
            "trace.jsonl",
            "the trace",
        ),
        (flip, "model/model.safetensors", "the model"),
        (lambda path: path.unlink(), "summary.json", "the set of files"),
    ],
)
def test_a_grid_that_is_not_as_the_unbroken_one_is_noticed(unbroken, outcomes, tmp_path, change, file, said):
    grid = unbroken["vanilla"].result().grid
    other = copy.copy(grid)
    other.folder, other.results = tmp_path, shutil.copytree(grid.results, tmp_path / "results")
    other.run_folder = tmp_path / grid.run_folder.relative_to(grid.folder)
    assert different(other, grid) == []
    change(other.run_folder / file)
    [complaint] = different(other, grid)
    assert complaint.startswith(f"{said} (")


def test_results_that_are_read_only_from_the_start_are_one_sentence(pool, unbroken, tmp_path):
    model = unbroken["vanilla"].result().model
    fault, grid = ReadOnly(0), FaultyGrid(tmp_path, "vanilla", model)
    try:
        fault.prepare(grid)
        fault.hit(grid)
    except Unable as reason:
        pytest.skip(str(reason))
    try:
        done = grid.snakemake("--cores", "1")
    finally:
        fault.mend(grid)
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if "Error" in line]
    assert errors == ["Error: results cannot be written to: Read-only file system"]


def test_what_a_killed_campaign_has_mounted_is_not_in_the_way_of_the_next(tmp_path):
    (tmp_path / "grid/results").mkdir(parents=True)
    try:
        mount("-t", "tmpfs", "tmpfs", str(tmp_path / "grid/results"))
    except Unable as reason:
        pytest.skip(str(reason))
    remove(tmp_path / "grid")
    assert list(tmp_path.iterdir()) == []
