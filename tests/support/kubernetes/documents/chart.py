"""The Helm chart of deploy/k8s as Helm's own engine renders it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from support.kubernetes.programs.recipe import CHARTS
from support.kubernetes.programs.requirements import require_binaries
from support.patience import WAIT_SECONDS
from support.repository import ROOT

CHART = ROOT / "deploy/k8s/chart"
RELEASE = "headrace"


class ChartError(Exception):
    """The chart cannot be rendered with these values; the text is Helm's."""


def rendered_chart(folder: Path, namespace: str, values: Mapping[str, Any]) -> str:
    """Returns the documents that a release with these values has. folder: for a file. Raises ChartError."""
    program = require_binaries([CHARTS]) / CHARTS.name
    file = folder / "values.yaml"
    file.write_text(json.dumps(values))  # which is YAML
    done = subprocess.run(
        [program, CHART, RELEASE, namespace, file], capture_output=True, text=True, check=False, timeout=WAIT_SECONDS
    )
    if done.returncode:
        raise ChartError(done.stderr)
    return done.stdout


def documents(text: str) -> list[dict[str, Any]]:
    """Returns the documents of a YAML stream that hold something."""
    return [each for each in YAML(typ="safe").load_all(text) if each]
