"""Finds connectors and formats by entry point, so that an installed package adds one with no change here.

A package declares, in its pyproject.toml,

    [project.entry-points."headrace.connectors"]
    mine = "my_package.mine:CONNECTOR"
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from headrace.connect.earlier_formats import adapted
from headrace.connect.format import FormatConfig
from headrace.connect.sink import SinkConfig
from headrace.connect.source import SourceConfig
from headrace.core.errors import UserError, did_you_mean

CONNECTORS = "headrace.connectors"
FORMATS = "headrace.formats"
BUNDLED = ("headrace.", "headrace_connectors.")
"""Packages of the connectors and formats that come with headrace."""


@dataclass(frozen=True, slots=True)
class Connector:
    """The target of an entry point in the group `headrace.connectors`.

    `example_source` and `example_sink` are YAML fragments for use under a node's name; tests load them.
    `host_modules`: modules that its enumerators and committers import when they are opened. `load_host_modules` imports
    them ahead; the imports must start no thread.
    """

    name: str
    summary: str
    source: type[SourceConfig] | None = None
    sink: type[SinkConfig] | None = None
    example_source: str = ""
    example_sink: str = ""
    host_modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """The target of an entry point in the group `headrace.formats`.

    `example` is a YAML fragment for use under a node's name; tests load it.
    """

    name: str
    summary: str
    config: type[FormatConfig]
    example: str = ""


_Kind = TypeVar("_Kind", Connector, Format)


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}


def connector_names() -> tuple[str, ...]:
    """Names of all installed connectors, sorted."""
    return tuple(_entries(CONNECTORS))


def load_bundled() -> None:
    """Imports the connectors and formats that come with headrace. The imports start no thread and open nothing. A
    connector that lacks an optional package is skipped; the pipeline that names it gets the error."""
    for group, load in ((CONNECTORS, connector), (FORMATS, format_named)):
        for name, entry in _entries(group).items():
            if entry.value.startswith(BUNDLED):
                with suppress(UserError):
                    load(name)


def load_host_modules() -> None:
    """Imports the live halves that connector hosts open, of the connectors that come with headrace. A module that lacks
    an optional package is skipped; the job that needs it gets the error."""
    for name, entry in _entries(CONNECTORS).items():
        if entry.value.startswith(BUNDLED):
            with suppress(UserError, ImportError):
                for module in connector(name).host_modules:
                    import_module(module)


def format_names() -> tuple[str, ...]:
    """Names of all installed formats, sorted."""
    return tuple(_entries(FORMATS))


def connector(name: str) -> Connector:
    """The installed connector with this name. Raises UserError with the nearest name."""
    return _load(CONNECTORS, "connector", name, Connector)


def bundled_connectors() -> tuple[Connector, ...]:
    """The connectors that come with headrace, by name. Raises UserError if one cannot be imported."""
    return tuple(connector(name) for name, entry in _entries(CONNECTORS).items() if entry.value.startswith(BUNDLED))


def bundled_formats() -> tuple[Format, ...]:
    """The formats that come with headrace, by name. Raises UserError if one cannot be imported."""
    return tuple(format_named(name) for name, entry in _entries(FORMATS).items() if entry.value.startswith(BUNDLED))


def format_named(name: str) -> Format:
    """The installed format with this name. Raises UserError with the nearest name."""
    found = _load(FORMATS, "format", name, Format)
    config = adapted(found.config)
    return found if config is found.config else replace(found, config=config)


def _load(group: str, word: str, name: str, kind: type[_Kind]) -> _Kind:
    entries = _entries(group)
    if name not in entries:
        hint = did_you_mean(name, tuple(entries))
        installed = f"installed {word}s: {', '.join(entries)}"
        raise UserError(f"unknown {word} {name!r}", remedy=f"{hint} {installed}" if hint else installed)
    try:
        loaded = entries[name].load()
    except Exception as cause:
        raise UserError(
            f"{word} {name!r} ({entries[name].value}) cannot be imported: {cause}",
            remedy="install the package that provides it again, with its dependencies",
        ) from cause
    if not isinstance(loaded, kind):
        raise UserError(f"entry point {entries[name].value} of {word} {name!r} is not a {kind.__name__}")
    return loaded
