"""Fields of a model as a Markdown table: name, type, default, meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.spec.config_fields import ConfigField


def field_table(fields: Iterable[ConfigField]) -> Iterator[str]:
    """The lines of a table with a row for each field, and for each field of its value; then an empty line."""
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    for field in fields:
        yield _row(field.name, field)
        yield from (_row(path, inner) for path, inner in field.inner)
    yield ""


def example_block(text: str) -> Iterator[str]:
    """The lines of a YAML block; then an empty line."""
    yield "```yaml"
    yield from text.rstrip().splitlines()
    yield "```"
    yield ""


def notes(field: ConfigField) -> str:
    """A field's description, limits, and whether it is secret."""
    return "; ".join(text for text in (field.description, field.limits, "secret" if field.secret else "") if text)


def _row(path: str, field: ConfigField) -> str:
    # outside of code, `<partition>` would be an HTML tag, and two `*` emphasis
    meaning = _escaped(notes(field)).replace("<", "&lt;").replace("*", "\\*")
    return f"| `{path}` | {_code(field.type)} | {_default(field)} | {meaning} |"


def _default(field: ConfigField) -> str:
    if field.required:
        return "required"
    # an empty text is a default, too: csv's `null`
    return _code(field.default_text or '""') if field.default_text or field.default == "" else ""


def _code(text: str) -> str:
    return f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
