"""Bounds of the house's figures: `python -m tidy.house --lists` shows the places behind them."""

from __future__ import annotations

from tidy.house import largest_classes, lines_of, modules, with_one_reader

ONE_READER_SHARE_MAX = 0.17
"""Of all files: those that one other file imports and no table names."""
IMPORTS_BY_CODE_MAX = 0.14
"""Lines of imports for each line of code."""
ATTRIBUTES_MAX = 20
"""Attributes of one class: more of them are two classes."""


def test_few_files_have_one_reader() -> None:
    assert len(with_one_reader()) <= ONE_READER_SHARE_MAX * len(modules())


def test_few_lines_are_imports() -> None:
    sizes = [lines_of(module) for module in modules().values()]
    assert sum(imports for _, imports in sizes) <= IMPORTS_BY_CODE_MAX * sum(code for code, _ in sizes)


def test_no_class_has_many_attributes() -> None:
    large = {name: size for size, name in largest_classes() if size > ATTRIBUTES_MAX}
    assert large == {}
