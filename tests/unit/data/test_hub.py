"""sagc.data.hub: the rows of a data set at one commit, and what a user reads when they cannot be had."""

import json

import httpx
import pytest
from huggingface_hub import errors
from huggingface_hub._tree_cache import TreeCacheEntry, write_tree_cache

from sagc.data.hub import read_hub_rows
from sagc.errors import UserError

COMMIT, OTHER = "a" * 40, "b" * 40


def write_rows(folder, file: str, *rows: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(autouse=True)
def datasets_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "arrow")


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """`hub_cache(COMMIT, {"a": 1})` puts that commit of owner/name into the Hub's cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    def put(commit: str, *rows: dict) -> None:
        storage = tmp_path / "hub" / "datasets--owner--name"
        write_rows(storage / "snapshots" / commit, "train.jsonl", *rows)
        entry = TreeCacheEntry(size=1, blob_id="c" * 40, lfs_sha256=None, lfs_size=None, xet_hash=None)
        write_tree_cache(str(storage), commit, {"train.jsonl": entry})

    return put


def refusal(*arguments) -> str:
    with pytest.raises(UserError) as caught:
        read_hub_rows(*arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_the_rows_of_a_local_folder(tmp_path):
    rows = [{"problem": "1 + 1?", "answer": 2.0}, {"problem": None, "answer": None}]
    write_rows(tmp_path / "data", "train.jsonl", *rows)
    assert read_hub_rows(str(tmp_path / "data"), None, "train", COMMIT) == rows


def test_a_configuration_and_a_split_that_are_not_there(tmp_path):
    folder = tmp_path / "data"
    write_rows(folder, "en.jsonl", {"a": 1})
    write_rows(folder, "cn.jsonl", {"a": 2})
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: en\n  data_files: en.jsonl\n- config_name: cn\n  data_files: cn.jsonl\n---\n"
    )
    assert read_hub_rows(str(folder), "cn", "train", COMMIT) == [{"a": 2}]
    assert "'fr' not found. Available: ['en', 'cn']" in refusal(str(folder), "fr", "train", COMMIT)
    assert "pick one among the available configs: ['en', 'cn']" in refusal(str(folder), None, "train", COMMIT)
    assert 'Unknown split "test"' in refusal(str(folder), "en", "test", COMMIT)


@pytest.mark.parametrize("file", ["train.jsonl", "read.me"])
def test_files_that_are_no_data(tmp_path, file):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / file).write_text("{no JSON")
    assert f"data set {tmp_path}/data at revision {COMMIT} cannot be read: " in refusal(
        str(tmp_path / "data"), None, "train", COMMIT
    )


def test_without_network_a_commit_in_the_cache_is_read_and_no_other(hub_cache):
    hub_cache(COMMIT, {"a": 1})
    hub_cache(OTHER, {"a": 2})  # the newer one: `datasets` alone would take it in either case
    assert read_hub_rows("owner/name", None, "train", COMMIT) == [{"a": 1}]
    assert read_hub_rows("owner/name", None, "train", OTHER) == [{"a": 2}]
    sentence = refusal("owner/name", None, "train", "d" * 40)
    assert sentence == (
        f"data set owner/name at revision {'d' * 40} is not in the local cache and the Hub does not answer "
        "(OfflineModeIsEnabled); `hf download` it on a machine with network, or give the problems as JSON lines"
    )


def test_a_name_that_the_hub_does_not_allow():
    assert refusal("a/b/c", None, "train", COMMIT) == (
        "data set 'a/b/c' is neither a folder nor a name of the Hub, which is owner/name"
    )


def answer(kind: type[errors.HfHubHTTPError], status: int) -> errors.HfHubHTTPError:
    return kind("message", response=httpx.Response(status, request=httpx.Request("GET", "https://huggingface.co")))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            answer(errors.GatedRepoError, 401),
            "is gated: accept its terms at https://huggingface.co/datasets/owner/name",
        ),
        (answer(errors.RevisionNotFoundError, 404), f"data set owner/name has no revision {COMMIT}"),
        (answer(errors.RepositoryNotFoundError, 401), "does not exist, or needs an account that may read it: `hf auth"),
        (answer(errors.HfHubHTTPError, 503), "the Hub does not answer (HfHubHTTPError)"),
        (httpx.ConnectError("no route"), "the Hub does not answer (ConnectError)"),
        (errors.LocalEntryNotFoundError("none"), "the Hub does not answer (LocalEntryNotFoundError)"),
    ],
)
def test_each_refusal_of_the_hub_has_its_sentence(monkeypatch, error, sentence):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    assert sentence in refusal("owner/name", None, "train", COMMIT)
