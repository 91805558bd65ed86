"""The progress of a computation on Spark, in words."""

from __future__ import annotations

from headrace.spark.cluster.progress import StageState, told


def test_progress_tells_of_the_last_level_that_goes_on() -> None:
    assert told([None, None]) is None
    assert told([StageState(1, 4), None]) == "level 1 of 2: 1/4 tasks"
    assert told([StageState(4, 4), StageState(0, 2), None]) == "level 2 of 3: 0/2 tasks"
    assert told([StageState(4, 4), StageState(2, 2)]) is None
    assert told([StageState(3, 4), StageState(2, 2)]) == "level 1 of 2: 3/4 tasks", "made again"
