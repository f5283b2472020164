"""sagc.system.environment: locales that cannot write every name, and home folders that cannot be written to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRINT = (
    "import os; from sagc.system import environment as e; e.prepare(); "
    "print(*(os.environ.get(name) for name in (*e.CACHES, 'HF_HOME')))"
)


def caches(home, project, **variables) -> list[str]:
    """XDG_CACHE_HOME and the others as a process with that HOME has them, and HF_HOME."""
    bare = {key: value for key, value in os.environ.items() if key not in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    environment = bare | {"HOME": str(home), "PYTHONPATH": str(project), **variables}
    done = subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_commands_write_any_name_where_the_locale_cannot(tmp_path, project):
    """LC_ALL=C, and Python kept from taking it for UTF-8."""
    config = tmp_path / "config.yaml"
    config.write_text((project / "config" / "config.yaml").read_text() + "\nresults: übung\n", encoding="utf-8")
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONPATH": str(project)}
    command = [sys.executable, "-m", "sagc.cli", "watch", "übung"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (2, "Error: results folder übung does not exist\n")


def test_a_home_that_can_be_written_to_or_made_is_left_alone(tmp_path, project):
    assert caches(tmp_path / "new", project) == ["None"] * 5


@pytest.mark.parametrize("home", ["/dev/null/home", "/proc/self/home"])
def test_libraries_get_a_place_of_their_own_where_there_is_no_home(home, project):
    *folders, models = caches(home, project)
    assert models == "None" and len({Path(folder).parts[:3] for folder in folders}) == 1
    assert "sagc-caches-" in folders[0] and not Path(folders[0]).parent.exists(), "it is gone with its process"


def test_what_the_user_has_set_stays(project, tmp_path):
    assert caches("/dev/null/home", project, XDG_CACHE_HOME=str(tmp_path))[0] == str(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up what lets it write anywhere")
def test_models_of_a_home_that_is_read_only_are_still_found(project, tmp_path):
    models = tmp_path / ".cache" / "huggingface"
    models.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / ".cache"):
        folder.chmod(0o555)
    command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", sys.executable, "-c"]
    bare = {key: value for key, value in os.environ.items() if key not in ("XDG_CACHE_HOME", "HF_HOME")}
    environment = bare | {"HOME": str(tmp_path), "PYTHONPATH": str(project)}
    done = subprocess.run([*command, PRINT], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == str(models) and "sagc-caches-" in done.stdout
