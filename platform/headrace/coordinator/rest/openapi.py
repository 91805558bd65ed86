"""Writes the OpenAPI document of the REST API: `python -m headrace.coordinator.rest.openapi [FILE]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import cast

from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import rest_app
from headrace.coordinator.rest.service import ClusterService
from headrace.spec.render import write_rendered

TARGET = Path("schemas/openapi.json")


def rendered() -> str:
    """Returns the document as text."""
    # routes only store the service: describing them calls nothing
    document = rest_app(cast("ClusterService", None), Tokens("described", "described")).openapi()
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> None:
    """Writes the document to the named file, or to its place in the repository."""
    write_rendered(arguments, TARGET, rendered())


if __name__ == "__main__":
    main(sys.argv[1:])
