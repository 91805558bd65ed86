"""The catalogue has every error class, and says of each what its constructor and the source say."""

from __future__ import annotations

from headrace.cli.reference.error_page import REMEDIES, error_classes, page, retry_of
from headrace.core.errors import ExternalError, InternalError, InvalidPipelineError, UnreachableError


def test_each_class_has_one_row_and_each_remedy_a_class() -> None:
    names = [error.__name__ for error in error_classes()]
    assert len(names) == len(set(names))
    assert set(names) == REMEDIES.keys()
    assert {"CorruptFileError", "JobNotFoundError", "HdfsError", "UnreachableError"} <= set(names)
    assert [name for name in names if page().count(f"\n| `{name}` |") != 1] == []


def test_retry_is_what_the_source_says() -> None:
    assert UnreachableError("x").retry
    assert retry_of(UnreachableError) == "always"
    assert retry_of(ExternalError) == "sometimes"
    assert retry_of(InvalidPipelineError) == "no"
    assert retry_of(InternalError) == "no"


def test_exit_codes_are_those_of_commands() -> None:
    assert "| `UnreachableError` | 3 | always |" in page()
    assert "| `InvalidPipelineError` | 2 | no |" in page()
    assert "| `CorruptFileError` | 1 | no |" in page()
