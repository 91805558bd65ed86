"""`${VAR}` and `${VAR:-default}` inside scalars; `$${` is a plain `${`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.spec.findings import Path, wrong

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(slots=True)
class Variables:
    """Replaces variables, and records where each value from the environment stands.

    environ   the values; None: none is read, and a variable without a default stays as it is written
    values    variable -> the value that was taken from the environment
    places    variable -> the paths of the scalars in which its value stands
    opaque    paths of the scalars that contain a variable that was not replaced
    """

    environ: Mapping[str, str] | None
    values: dict[str, str] = field(default_factory=dict)
    places: dict[str, list[Path]] = field(default_factory=dict)
    opaque: set[Path] = field(default_factory=set)

    def replaced(self, text: str, path: Path) -> str:
        """The text with variables replaced. A default applies if the variable is unset or empty. Raises
        FindingsError."""
        return _REFERENCE.sub(lambda match: self._value(match, path), text) if "${" in text else text

    def _value(self, match: re.Match[str], path: Path) -> str:
        if match[0] == "$${":
            return "${"
        if match[1] is None:
            raise wrong("a variable is not closed", "write ${NAME} or ${NAME:-default}; $${ for a plain ${")
        name, dash, default = match[1].partition(":-")
        if not _NAME.match(name):
            raise wrong(f"{match[0]} names no variable", "write ${NAME} or ${NAME:-default}; $${ for a plain ${")
        value = None if self.environ is None else self.environ.get(name)
        if value is not None and (value or not dash):
            self.values[name] = value
            self.places.setdefault(name, []).append(path)
            return value
        if dash:
            return default
        if self.environ is None:
            self.opaque.add(path)
            return match[0]
        raise wrong(f"variable {name!r} is not set", f"set it, or give a default: ${{{name}:-default}}")
