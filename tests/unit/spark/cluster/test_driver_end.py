"""The end of a driver is told once, by an object in storage; nothing is told where nothing was kept."""

from __future__ import annotations

from pathlib import Path

from headrace.spark.cluster.driver_end import TAIL_CHARACTERS, DriverEnd, end_url


def test_an_end_is_taken_once(tmp_path: Path) -> None:
    url = end_url(str(tmp_path))
    assert url != end_url(str(tmp_path))
    assert DriverEnd.take(url) is None
    end = DriverEnd(3, '{"rows": 1}\n', "error: away\n")
    end.keep(url)
    assert DriverEnd.take(url) == end
    assert list(tmp_path.iterdir()) == []


def test_of_much_that_was_printed_the_end_is_kept(tmp_path: Path) -> None:
    url = end_url(str(tmp_path))
    DriverEnd(0, "x" * TAIL_CHARACTERS + "last").keep(url)
    kept = DriverEnd.take(url)
    assert kept is not None
    assert len(kept.out) == TAIL_CHARACTERS
    assert kept.out.endswith("last")


def test_what_cannot_be_read_counts_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "end.json").write_text("{")
    assert DriverEnd.take(str(tmp_path / "end.json")) is None
