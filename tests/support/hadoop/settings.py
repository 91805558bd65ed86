"""Files with Hadoop's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape


def write_settings(path: Path, settings: Mapping[str, str]) -> None:
    """Writes a file such as core-site.xml."""
    lines = (
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))


def read_settings(path: Path) -> Mapping[str, str]:
    """Inverse of `write_settings`."""
    found = {}
    for entry in ElementTree.parse(path).getroot().iter("property"):
        name, value = entry.findtext("name"), entry.findtext("value")
        assert name and value, f"{path}: a property without a name or a value"
        found[name] = value
    return found
