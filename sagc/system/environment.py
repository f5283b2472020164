"""What a process needs from its environment before it starts: UTF-8 file names and a place for caches."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

# Variables that libraries try before HOME: Hugging Face, matplotlib and vLLM; vLLM; DeepSpeed (both TRITON ones).
CACHES = {"XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "TRITON_HOME": "", "TRITON_CACHE_DIR": "triton"}


def prepare() -> None:
    """Make the process and its children independent of the locale and the home folder."""
    use_utf8()
    use_caches()


def use_utf8() -> None:
    """Restart this program in Python's UTF-8 mode if file names could not be written otherwise.

    That is the case with LC_ALL=C and PYTHONUTF8=0.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.environ["PYTHONUTF8"] = "1"
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def use_caches() -> None:
    """If HOME is not writable, give libraries a temporary place for what they keep there.

    Importing DeepSpeed, for instance, creates a folder. Models in the home folder's cache are still found.
    """
    home = Path(os.path.expanduser("~"))
    if (_is_writable(home) and _is_writable(home / ".cache")) or CACHES.keys() <= os.environ.keys():
        return
    models = home / ".cache" / "huggingface"
    folder = tempfile.mkdtemp(prefix="sagc-caches-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if os.access(models, os.R_OK):
        os.environ.setdefault("HF_HOME", str(models))
        os.environ.setdefault("HF_DATASETS_CACHE", str(Path(folder, "datasets")))
    for variable, name in CACHES.items():
        os.environ.setdefault(variable, str(Path(folder, name)))


def _is_writable(folder: Path) -> bool:
    if not folder.is_absolute():  # still "~": there is neither HOME nor an entry for the user
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
