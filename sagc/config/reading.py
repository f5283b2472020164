"""Reads YAML and JSON into the config's models; a mistake is one sentence: key, value, what is allowed."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from sagc.errors import UserError


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises
    ------
    UserError
        If the file cannot be read or is not a YAML mapping; one sentence, with the line of a syntax error.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"config file {path} cannot be read: {reason}") from None
    try:
        return mapping(yaml.safe_load(text), str(path))
    except (yaml.YAMLError, ValueError) as error:  # ValueError: something that looks like a date but is not
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise UserError(f"config file {path} is not valid YAML{where}: {reason}") from None


def mapping(raw: Any, source: str) -> dict[str, Any]:
    """`raw`, if it is a dictionary.

    Raises
    ------
    UserError
        If it is not.
    """
    if not isinstance(raw, dict):
        raise UserError(f"{source} must be a mapping of keys to values, not {type(raw).__name__}")
    return raw


def from_json(model: type[BaseModel], text: str, option: str) -> Any:
    """The model described by the JSON of a command-line option.

    Raises
    ------
    UserError
        If the JSON does not fit the model.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise UserError(f"{option}: {describe(error, model)}") from None


def describe(error: ValidationError, model: type[BaseModel]) -> str:
    """One sentence with the first problem that pydantic found in a model, and how many more there are."""
    problems = error.errors(include_url=False)
    first = problems[0]
    path, beside = _locate(first["loc"], model)
    key = ".".join(path) or "config"
    if first["type"] == "extra_forbidden":
        sentence = f"unknown key {key}; allowed here are {', '.join(beside)}"
    elif first["type"] == "missing":
        sentence = f"key {key} is missing"
    elif first["type"] == "union_tag_not_found":
        sentence = f"key {key}.type is missing"
    else:
        message = first["msg"].removeprefix("Value error, ")
        value = "" if isinstance(first["input"], dict) else f" is {_short(first['input'])}"
        sentence = f"{key}{value}: {message[0].lower()}{message[1:]}"
    return sentence + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")


def _locate(location: tuple[str | int, ...], model: type[BaseModel]) -> tuple[list[str], list[str]]:
    """A pydantic location as YAML keys, and all keys of the section of the last one."""
    schema = model.model_json_schema()
    node, path = schema, []
    for part in (part for part in location if part != "[key]"):
        beside = list(node.get("properties", {}))
        if "discriminator" in node:  # pydantic adds the kind of section to the location
            node = {"$ref": node["discriminator"]["mapping"][part]}
        else:
            path.append(str(part))
            named = node.get("patternProperties", {})  # keys are names chosen by the user
            node = node.get("properties", {}).get(part) or next(iter(named.values()), {}) or node.get("items", {})
        if "anyOf" in node:  # an optional section
            node = next(option for option in node["anyOf"] if option.get("type") != "null")
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return path, beside if location else []


def _short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
