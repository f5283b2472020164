"""The error for a mistake by the user: one sentence, exit status 2."""


class UserError(Exception):
    """A mistake that the user can fix: the message is one sentence with the key, the value and what is allowed.

    The CLI prints it without a traceback and exits with status 2.
    """
