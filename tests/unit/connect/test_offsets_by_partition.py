from __future__ import annotations

from typing import Any

import pytest

from headrace.connect.offsets_by_partition import offsets_of, stops_of
from headrace.connect.source import SplitId
from headrace.core.errors import UserError

ENDS = {SplitId("n", 0): 10, SplitId("n", 1): 5}


@pytest.mark.parametrize("given", [{"0": "3", "1": 5}, {"n": {"0": 3, "1": "5"}, "other": {"0": 1}}])
def test_offsets_with_and_without_topics(given: dict[str, Any]) -> None:
    assert stops_of(offsets_of(given), ENDS) == {SplitId("n", 0): 3, SplitId("n", 1): 5}


@pytest.mark.parametrize("stop", [None, "latest"])
def test_the_end_there_is(stop: str | None) -> None:
    assert stops_of(stop, ENDS) == ENDS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({0: 3}, "stop does not name partition 1 of n"),
        ({0: 3, 1: 1, 7: 1}, "stop names partition 7, but n has 0, 1"),
        ({0: 3, 1: 6}, "n[1] ends at offset 5, before 6"),
        ({"other": {0: 3, 1: 1}}, "stop does not name partition 0, 1 of n"),
    ],
)
def test_offsets_that_fit_no_partition(given: dict[Any, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        stops_of(offsets_of(given), ENDS)
    assert message in str(raised.value)
