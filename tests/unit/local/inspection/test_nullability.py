"""Columns are `not null` by wish or by key, never because a sample had no null."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.local.inspection.infer import infer_rows
from headrace.local.inspection.nullability import declared

SAMPLE = infer_rows([{"id": 1, "n": 2, "in": {"a": 1}, "l": [1]}, {"id": 2, "n": None, "in": {"a": 2}, "l": [2]}])


def test_by_default_everything_is_nullable_also_within() -> None:
    schema = declared(SAMPLE, keys=(), not_null=False).schema.json()
    assert schema == {"id": "int64", "n": "int64", "in": "{a: int64}", "l": "[int64]"}


def test_keys_and_the_wish() -> None:
    assert declared(SAMPLE, keys=("id",), not_null=False).schema.field("id").type_text == "int64 not null"
    assert declared(SAMPLE, keys=("id",), not_null=False).schema.field("in").type_text == "{a: int64}"
    assert declared(SAMPLE, keys=(), not_null=True).schema == SAMPLE.schema


@pytest.mark.parametrize(("key", "message"), [("n", "some rows have no value"), ("ids", "no such column")])
def test_what_can_be_no_key(key: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        declared(SAMPLE, keys=(key,), not_null=True)
