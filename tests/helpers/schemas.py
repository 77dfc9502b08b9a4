"""Check JSON against docs/reference/whence.schema.json, the published schema."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SCHEMA = Path(__file__).parent.parent.parent / "docs" / "reference" / "whence.schema.json"
OPEN = ("overview",)  # readers of formats add members of their own


@cache
def document() -> dict[str, Any]:
    return dict(json.loads(SCHEMA.read_text()))


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that refuses members which it does not list, so that a new one must be listed."""
    if "properties" in schema:
        schema = {**schema, "additionalProperties": False}
    return {key: closed(value) if isinstance(value, dict) else value for key, value in schema.items()}


@cache
def validator(name: str) -> Any:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed (make test installs it)")
    definitions = {key: value if key in OPEN else closed(value) for key, value in document()["$defs"].items()}
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})


def conforms(name: str, item: object) -> None:
    """Check that an object is as the schema's definition `name` describes, and has no other members."""
    problems = [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(item)]
    assert not problems, f"{name}: {problems[:3]} in {json.dumps(item)[:500]}"
