from __future__ import annotations

import pytest

from headrace.cli.spark.verify import range_of
from headrace.core.errors import UserError


def test_a_range_in_two() -> None:
    assert range_of(None) == (None, None)
    assert range_of("earliest..latest") == ("earliest", "latest")
    assert range_of("..2024-01-01T00:00:00Z") == (None, "2024-01-01T00:00:00Z")
    assert range_of('{"0": 5}..') == ('{"0": 5}', None)
    with pytest.raises(UserError, match="is no range"):
        range_of("latest")
