"""When tokens of a cluster on YARN are renewed."""

from __future__ import annotations

import pytest

from headrace.deployment.yarn.secrets.renewal import CERTIFICATES_LOOK_SECONDS, wait_seconds


@pytest.mark.parametrize(
    ("until_ms", "expected_s"),
    [(101_000, 75.0), (1_000, 0.0), (500, 0.0), (None, CERTIFICATES_LOOK_SECONDS)],
)
def test_tokens_are_used_for_three_quarters_of_their_time(until_ms: int | None, expected_s: float) -> None:
    assert wait_seconds(1_000, until_ms) == expected_s
