"""What a process needs of its surroundings before it starts: file names in UTF-8, and a place for caches."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

# Where libraries look first for a place below HOME: Hugging Face, matplotlib and vLLM, then vLLM, then DeepSpeed.
CACHES = {"XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config", "TRITON_HOME": "", "TRITON_CACHE_DIR": "triton"}


def prepare() -> None:
    """Make the process, and all that it starts, independent of the locale and of a home folder."""
    use_utf8()
    use_caches()


def use_utf8() -> None:
    """Start this program anew in Python's UTF-8 mode where file names could not be written otherwise.

    That is so with LC_ALL=C and PYTHONUTF8=0.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.environ["PYTHONUTF8"] = "1"
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def use_caches() -> None:
    """Give libraries a temporary place for what they keep below HOME, where nothing can be written there.

    Importing DeepSpeed, for instance, makes a folder. Models that are in the home folder's cache are still found.
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
    if not folder.is_absolute():  # ~ itself, where there is neither HOME nor an entry for the user
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
