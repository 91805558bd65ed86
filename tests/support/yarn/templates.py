"""The templates of deploy/yarn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from support.repository import ROOT

TEMPLATES = ROOT / "deploy/yarn"


def settings_of(file: Path) -> Mapping[str, str]:
    """Name -> value of a file with Hadoop's settings."""
    found = {}
    for entry in ElementTree.parse(file).getroot().iter("property"):
        name, value = entry.findtext("name"), entry.findtext("value")
        assert name and value, f"{file}: a property without a name or a value"
        found[name] = value
    return found
