"""Commands that report a user's mistake or a full disk in one sentence, with exit status 2."""

from __future__ import annotations

import errno
import os
from typing import Any

import click

from sagc.errors import UserError
from sagc.system import environment

FULL_DISK = {errno.ENOSPC, errno.EDQUOT}


class _Refusing(click.Command):
    def main(self, *arguments: Any, **options: Any) -> Any:
        environment.prepare()
        return super().main(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            raise _refusal(str(error)) from None
        except ModuleNotFoundError as error:
            raise _refusal(f"{error.name} is not installed; `sagc doctor` says what this command lacks") from error
        except Exception as error:
            if (full := _full_disk(error)) is None:
                raise
            raise _refusal(full) from None


class Command(_Refusing):
    """A single command, such as the `main` of a module."""


class Commands(_Refusing, click.Group):
    """A group of commands."""


def _refusal(sentence: str) -> click.ClickException:
    refusal = click.ClickException(sentence)
    refusal.exit_code = 2
    return refusal


def _full_disk(error: BaseException | None) -> str | None:
    """The sentence for an error caused by a full disk; libraries may wrap the error or keep only its text."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            return f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror}"
        if os.strerror(errno.ENOSPC) in str(error):
            return str(error)
        error = error.__cause__ or error.__context__
    return None
