"""Writes the CustomResourceDefinitions: `python -m headrace.kubernetes_operator.definitions.render [FOLDER]`."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from pathlib import Path

from ruamel.yaml import YAML

from headrace.kubernetes_operator.definitions.definitions import DEFINITIONS, definition_document

FOLDERS = (Path("deploy/k8s/operator/crds"), Path("deploy/k8s/chart/crds"))
"""For kubectl, and the same for Helm."""
_HEAD = "# Written by `make docs` from the models in headrace.kubernetes_operator.resources.\n"
_WIDTH = 120


def rendered() -> Mapping[str, str]:
    """File name -> its text."""
    return {f"{each.kind.plural}.yaml": _text(definition_document(each)) for each in DEFINITIONS}


def _text(document: Mapping[str, object]) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = _WIDTH
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(document, stream)
    return _HEAD + stream.getvalue()


def main(arguments: list[str]) -> None:
    """Writes the files to the folder named, else to their places in the repository."""
    for folder in (Path(arguments[0]),) if arguments else FOLDERS:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in rendered().items():
            (folder / name).write_text(text, encoding="utf-8")
            sys.stdout.write(f"{folder / name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
