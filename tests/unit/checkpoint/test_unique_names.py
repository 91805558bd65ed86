"""The random part of names in checkpoint storage."""

from __future__ import annotations

from headrace.checkpoint.paths import STAGED, staged_path
from headrace.checkpoint.unique_names import unique_part


def test_two_writers_never_use_one_name() -> None:
    names = {staged_path(1, 2, "sink", 0, 0, unique_part()) for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(f"{STAGED}1-2-sink-0-0-") for name in names)
