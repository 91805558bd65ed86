"""Flags of commands and fields of their JSON are those of the files in `contract`: scripts of users name them."""

from __future__ import annotations

from tidy.pinned import FIELDS, OPTIONS, json_fields, options


def test_commands_have_their_flags() -> None:
    assert options() == OPTIONS.read_text(encoding="utf-8"), "scripts break: keep the old name, or run `make docs`"


def test_documents_have_their_fields() -> None:
    assert json_fields() == FIELDS.read_text(encoding="utf-8"), "scripts break: keep the old name, or run `make docs`"
