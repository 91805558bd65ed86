"""A share counts as published only with all its rows."""

from __future__ import annotations

import pytest

from headrace.connect.publisher import Share
from headrace.core.errors import InternalError


def test_a_whole_share() -> None:
    Share(1, 3).require_whole(3)


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_another_number_of_rows(rows: int) -> None:
    with pytest.raises(InternalError, match=f"a share of epoch 1 has 3 rows, and its publisher was given {rows}"):
        Share(1, 3).require_whole(rows)
