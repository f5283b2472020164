"""Data sets of the Hugging Face Hub, each at a revision that the config names."""

from pathlib import Path
from typing import Any

from sagc.errors import UserError


def read_hub_rows(path: str, name: str | None, split: str, revision: str) -> list[dict[str, Any]]:
    """The rows of a split of a data set, by its name on the Hub; a local folder is read as it is.

    `datasets` takes whichever revision it has read last where the Hub does not answer. So the files come first, from
    the Hub's cache where that commit is there: a machine without network has the same rows, or none.

    Raises UserError that says how to get the data set, for one that is gated, missing, or out of reach, and for a
    configuration or split that it has not got.
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
    """The folder of the data set's files at that revision, fetched where they are not there."""
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
