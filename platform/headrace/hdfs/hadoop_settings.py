"""Hadoop's settings as its own programs find them: core-site.xml and hdfs-site.xml of the configuration folder.

The folder is `$HADOOP_CONF_DIR`, else `$HADOOP_HOME/etc/hadoop`. Not supported are XML includes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from headrace.core.errors import UserError

_FILES = ("core-site.xml", "hdfs-site.xml")
_VARIABLE = re.compile(r"\$\{([^{}$\s]+)\}")
_SUBSTITUTIONS_MAX = 20
"""Replacements of variables in one value (Hadoop's `MAX_SUBST`)."""


def hadoop_settings() -> dict[str, str]:
    """The settings of this process's environment; empty without a configuration folder. Raises UserError."""
    folder = os.environ.get("HADOOP_CONF_DIR")
    if not folder and (home := os.environ.get("HADOOP_HOME")):
        folder = f"{home}/etc/hadoop"
    return read_settings(Path(folder)) if folder else {}


def read_settings(folder: Path) -> dict[str, str]:
    """The settings of a configuration folder, with variables replaced. Raises UserError for a file that is no XML."""
    raw: dict[str, str] = {}
    for path in (folder / name for name in _FILES):
        try:
            root = ElementTree.fromstring(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ElementTree.ParseError) as error:
            raise UserError(
                f"Hadoop's settings in {path} cannot be read: {error}", remedy="correct it, or set HADOOP_CONF_DIR"
            ) from error
        for entry in root.iter("property"):
            if name := (entry.findtext("name") or "").strip():
                raw[name] = (entry.findtext("value") or "").strip()
    return {name: _replaced(value, raw) for name, value in raw.items()}


def _replaced(value: str, settings: Mapping[str, str]) -> str:
    """The value with `${name}` and `${env.NAME}` replaced; variables without a value stay."""
    for _ in range(_SUBSTITUTIONS_MAX):
        replaced = _VARIABLE.sub(lambda match: _variable(match[1], settings) or match[0], value)
        if replaced == value:
            break
        value = replaced
    return value


def _variable(name: str, settings: Mapping[str, str]) -> str | None:
    if name.startswith("env."):
        return os.environ.get(name.removeprefix("env."))
    return settings.get(name)
