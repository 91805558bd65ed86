"""The resources that docs/kubernetes.md shows."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML

from headrace.kubernetes_operator.resources.kinds import API
from support.repository import ROOT

PAGE = ROOT / "docs/kubernetes.md"
_FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def shown_resources() -> dict[str, dict[str, Any]]:
    """Kind -> the example."""
    documents = [YAML(typ="safe").load(match[1]) for match in _FENCE.finditer(PAGE.read_text())]
    return {each["kind"]: each for each in documents if each.get("apiVersion") == API}
