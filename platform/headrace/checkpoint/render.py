"""Writes the JSON schema of manifests, for readers in any language: `python -m headrace.checkpoint.render [FILE]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from headrace.checkpoint.manifest import Manifest
from headrace.spec.render import write_rendered

TARGET = Path("schemas/manifest.schema.json")


def manifest_schema() -> dict[str, Any]:
    """The schema of a savepoint's manifest.json, and of `manifest` in a journal's checkpoint record, as JSON data."""
    schema = Manifest.model_json_schema(mode="serialization")
    schema.pop("title")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Headrace manifest", **schema}


def rendered() -> str:
    """The schema as the text of its file."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    """Writes the schema to the file named, else to its path in the repository."""
    write_rendered(arguments, TARGET, rendered())


if __name__ == "__main__":
    main(sys.argv[1:])
