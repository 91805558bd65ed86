"""`${VAR}` and `${VAR:-default}` inside scalars; `$${` is a plain `${`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.spec.reading.findings import wrong

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """The text with variables replaced. The default applies if the variable is unset or empty. Raises FindingsError."""
    return _REFERENCE.sub(lambda match: _value(match, environ), text) if "${" in text else text


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match[0] == "$${":
        return "${"
    if match[1] is None:
        raise wrong("a variable is not closed", "write ${NAME} or ${NAME:-default}; $${ for a plain ${")
    name, dash, default = match[1].partition(":-")
    if not _NAME.match(name):
        raise wrong(f"{match[0]} names no variable", "write ${NAME} or ${NAME:-default}; $${ for a plain ${")
    value = environ.get(name)
    if value is not None and (value or not dash):
        return value
    if dash:
        return default
    raise wrong(f"variable {name!r} is not set", f"set it, or give a default: ${{{name}:-default}}")
