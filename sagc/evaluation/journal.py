"""The responses of an unfinished evaluation, written to disk as they arrive, so that it can resume."""

from __future__ import annotations

import json
from pathlib import Path


class Response(str):
    """A response's text, with its length in tokens (end token included) and whether the limit cut it off."""

    tokens: int
    cut_off: bool

    def __new__(cls, text: str, tokens: int, cut_off: bool) -> Response:
        response = super().__new__(cls, text)
        response.tokens, response.cut_off = tokens, cut_off
        return response

    def __getnewargs__(self) -> tuple[str, int, bool]:  # to be pickled for the processes that check answers
        return str(self), self.tokens, self.cut_off


class Journal:
    """The responses to one benchmark, by number; the first line of the file is the key that they belong to.

    A file with another key is discarded: the model, the settings or the problems have changed.
    """

    def __init__(self, path: Path, key: str):
        self.path = path
        self.responses: dict[int, Response] = {}
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        whole = lines[:-1]  # a killed process may leave half a line at the end
        if not whole or json.loads(whole[0]) != key:
            whole = [json.dumps(key).encode()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in whole))
        for line in whole[1:]:
            number, text, tokens, cut_off = json.loads(line)
            self.responses[number] = Response(text, tokens, cut_off)

    def add(self, number: int, response: Response) -> None:
        """Keep a response; it is on disk when this returns."""
        self.responses[number] = response
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps([number, response, response.tokens, response.cut_off]) + "\n")
