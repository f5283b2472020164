"""Data sets from the Hugging Face Hub, each at the revision named in the config."""

from pathlib import Path
from typing import Any

from sagc.errors import UserError


def read_hub_rows(path: str, name: str | None, split: str, revision: str) -> list[dict[str, Any]]:
    """The rows of one split of a data set on the Hub or in a local folder.

    If the Hub does not answer, `datasets` falls back to the revision it read last. So the files are fetched first, from
    the Hub's cache if it has that commit: a machine without network gets the same rows, or none.

    Raises
    ------
    UserError
        If the data set is gated, missing or out of reach (the message says how to get it), or lacks the configuration
        or split.
    """
    import datasets

    folder = path if Path(path).is_dir() else _files(path, revision)
    datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(folder, name, split=split).to_list()
    except (ValueError, FileNotFoundError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).partition("\nExample of usage")[0].split()).rstrip(".")
        raise UserError(f"data set {path} at revision {revision} cannot be read: {reason}") from None


def _files(path: str, revision: str) -> str:
    """The folder of the data set's files at that revision, downloaded if necessary."""
    import httpx
    from huggingface_hub import errors, snapshot_download

    where = f"data set {path} at revision {revision}"
    try:
        return snapshot_download(path, repo_type="dataset", revision=revision)
    except errors.HFValidationError:
        raise UserError(f"data set {path!r} is neither a folder nor a name of the Hub, which is owner/name") from None
    except errors.GatedRepoError:
        raise UserError(
            f"{where} is gated: accept its terms at https://huggingface.co/datasets/{path}, and `hf auth login`"
        ) from None
    except errors.RevisionNotFoundError:
        raise UserError(f"data set {path} has no revision {revision}") from None
    except errors.RepositoryNotFoundError:
        raise UserError(f"{where} does not exist, or needs an account that may read it: `hf auth login`") from None
    except (errors.LocalEntryNotFoundError, httpx.HTTPError, ConnectionError) as error:
        raise UserError(
            f"{where} is not in the local cache and the Hub does not answer ({type(error).__name__}); `hf download` it "
            "on a machine with network, or give the problems as JSON lines"
        ) from None
