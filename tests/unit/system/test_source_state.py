"""sagc.system.source_state: the commit that a run was made with, and nothing where that cannot be known."""

import subprocess

import pytest

from sagc.system import source_state
from sagc.system.source_state import as_text

COMMITTER = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with the package in it, committed, in the place of the project's own."""
    package = tmp_path / "sagc"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(source_state, "PACKAGE_FOLDER", package)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, *COMMITTER, "commit", "-q", "-m", "first")
    return tmp_path


def git(folder, *arguments) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_of_a_clean_checkout(checkout):
    commit = git(checkout, "rev-parse", "HEAD")
    assert source_state.source_state() == {"commit": commit, "changed": False}
    assert as_text(source_state.source_state()) == commit


@pytest.mark.parametrize("file", ["sagc/__init__.py", "sagc/new.py", "openrlhf_patch/new.py"])
def test_code_that_is_in_no_commit_is_said(checkout, file):
    (checkout / file).parent.mkdir(exist_ok=True)
    (checkout / file).write_text("changed = True\n")
    assert source_state.source_state()["changed"]
    assert as_text(source_state.source_state()).endswith(", with changes that are in no commit")


def test_other_files_are_no_change_of_the_code(checkout):
    (checkout / "notes.txt").write_text("mine")
    assert not source_state.source_state()["changed"]


def test_a_repository_around_an_installed_package_is_not_its_own(checkout, monkeypatch):
    installed = checkout / "site-packages" / "sagc"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    monkeypatch.setattr(source_state, "PACKAGE_FOLDER", installed)
    assert source_state.source_state() == {} and as_text({}) == "not known"


def test_without_a_repository_or_git_nothing_is_known(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert source_state.source_state() == {}
    monkeypatch.undo()
    monkeypatch.setattr(source_state, "PACKAGE_FOLDER", checkout.parent)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(checkout.parent.parent))
    assert source_state.source_state() == {}
