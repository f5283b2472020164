"""The error that a user can cause: one sentence, exit status 2."""


class UserError(Exception):
    """A mistake that the user can mend: the message is one sentence that names the key, the value and what is allowed.

    The CLI prints it without a traceback and exits with status 2.
    """
