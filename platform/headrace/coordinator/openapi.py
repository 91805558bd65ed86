"""Writes the OpenAPI document of the REST API: `python -m headrace.coordinator.openapi [FILE]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

from headrace.coordinator.rest import rest_app
from headrace.coordinator.service import ClusterService

TARGET = Path("schemas/openapi.json")


def rendered() -> str:
    """The document as text."""
    # routes only hold on to the service: describing them calls nothing
    document = rest_app(cast("ClusterService", None), token="").openapi()
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    """Writes the document to the file named, else to its place in the repository."""
    target = Path(arguments[0]) if arguments else TARGET
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(rendered(), encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
