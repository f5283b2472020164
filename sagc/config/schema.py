"""The JSON schema of a config file, for editors that check YAML: `python -m sagc.config.schema` rewrites it."""

from pathlib import Path

import yaml

from sagc.config.grid import GridConfig

SCHEMA_PATH = Path(__file__).resolve().parents[2] / "workflow" / "schemas" / "config.schema.yaml"


def schema_text() -> str:
    """The content of workflow/schemas/config.schema.yaml."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **GridConfig.model_json_schema()}
    head = "# Made from sagc/config/grid.py by `python -m sagc.config.schema`; a test keeps the two equal.\n"
    return head + yaml.safe_dump(schema, sort_keys=False, width=120, allow_unicode=True)


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
