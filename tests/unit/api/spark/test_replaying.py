from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from headrace.api.spark.replaying import Bound, bound_text


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (None, None),
        ("latest", "latest"),
        (datetime(2024, 1, 2, 3, 4, 5), "2024-01-02T03:04:05Z"),
        (datetime(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00Z"),
        (datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2024-01-01T22:00:00Z"),
        ({0: 12, 1: 7}, '{"0": 12, "1": 7}'),
        ({"flights": {"0": 12}}, '{"flights": {"0": 12}}'),
    ],
)
def test_as_the_command_line_has_it(bound: Bound, text: str | None) -> None:
    assert bound_text(bound) == text
