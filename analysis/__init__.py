"""From run folders to tables: reads only files that a run wrote, and knows no stack."""

from typing import Any

import click

from sagc.errors import UserError


class Command(click.Command):
    """A command that turns a user's mistake into one sentence and exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            refusal = click.ClickException(str(error))
            refusal.exit_code = 2
            raise refusal from None
