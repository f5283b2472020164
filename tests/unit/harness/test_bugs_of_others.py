"""tests/README.md: every test that it names for a bug that others had exists."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]


def test_every_named_test_exists():
    named = re.findall(r"\| (test_\w+) \|$", (TESTS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    written = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    assert len(named) >= 15
    assert [name for name in named if f"def {name}(" not in written] == []
