"""The distributions that requirements lead to, as they are installed in this environment."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def required_names(requirements: Iterable[str]) -> set[str]:
    """Returns the canonical names of what these requirements need, and what that needs."""
    seen: set[tuple[str, str]] = set()
    wanted = [(text, "") for text in requirements]
    while wanted:
        text, extra = wanted.pop()
        required = Requirement(text)
        if required.marker is not None and not required.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(required.name)
        for each in ("", *required.extras):
            if (name, each) not in seen:
                seen.add((name, each))
                wanted += [(inner, each) for inner in metadata.requires(name) or ()]
    return {name for name, _ in seen}
