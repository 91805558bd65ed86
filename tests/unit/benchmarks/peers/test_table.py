"""Tables: medians of rounds, ratios within rounds, and a page that keeps everything else."""

from __future__ import annotations

import pytest
from peers.jobs import JOBS, Name
from peers.phase import Measured, Phase
from peers.table import Conditions, MissingMarkersError, ratios, replaced, section

CONDITIONS = Conditions(date="2026-01-02", commit="abc", machine="a machine", contenders=["Headrace 1", "Flink 2"])
JOB = JOBS[Name.K]


def at_rate(cpu: float, *, wall: float = 1_000.0, fresh: float = 1_000.0) -> Measured:
    """Rows a second."""
    small = Phase(rows=0, cpu_s=1.0, wall_s=1.0)
    large = Phase(rows=10_000, cpu_s=1.0 + 10_000 / cpu, wall_s=1.0 + 10_000 / wall)
    return Measured(small=small, large=large, fresh=Phase(rows=10_000, cpu_s=10_000 / fresh, wall_s=1.0))


def row(text: str, name: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_ratios_are_taken_within_rounds() -> None:
    # the second round was slow for both
    rounds = {"Headrace": [at_rate(4_000), at_rate(1_000)], "other": [at_rate(2_000), at_rate(500)]}
    assert ratios(rounds, "other", lambda measured: measured.steady_rows_per_cpu_s) == pytest.approx([2.0, 2.0])


def test_a_row_has_medians_with_their_spread() -> None:
    own = [at_rate(1_000_000 * rate) for rate in (3, 1, 2)]
    text = section(JOB, {"Headrace": own, "other": [at_rate(1_000_000)] * 3}, CONDITIONS)
    assert row(text, "Headrace")[:2] == ["2,000 (1,000..3,000)", ""]
    assert row(text, "other")[:2] == ["1,000 (1,000..1,000)", "2.00 (1.00..3.00)x"]


def test_one_round_has_no_spread() -> None:
    text = section(JOB, {"Headrace": [at_rate(2_000_000)], "other": [at_rate(1_000_000)]}, CONDITIONS)
    assert row(text, "other")[:2] == ["1,000", "2.00x"]
    assert ", 1 round, " in text


def test_a_table_says_where_headrace_is_behind_and_where_rounds_disagree() -> None:
    own = [at_rate(900, wall=3_000, fresh=500), at_rate(1_100, wall=3_000, fresh=500)]
    text = section(JOB, {"Headrace": own, "other": [at_rate(1_000)] * 2}, CONDITIONS)
    assert "Headrace is behind other: fresh start, by CPU (0.50x)." in text
    assert "No clear winner beside other: steady, by CPU (1.00x)." in text


def test_a_table_says_that_headrace_is_behind_nowhere() -> None:
    own = [at_rate(2_000, wall=2_000, fresh=2_000)]
    assert "behind in no measure" in section(JOB, {"Headrace": own, "other": [at_rate(1_000)]}, CONDITIONS)


def test_a_page_keeps_everything_but_the_table_of_the_job() -> None:
    page = "a\n<!-- peers K -->\nold\n<!-- end of peers K -->\nb\n<!-- peers P -->\nkept\n<!-- end of peers P -->\n"
    once = replaced(page, JOB, "new")
    assert once == page.replace("old", "new")
    assert replaced(once, JOB, "new") == once


@pytest.mark.parametrize("page", ["", "<!-- peers K -->\n", "<!-- end of peers K -->\n<!-- peers K -->\n"])
def test_a_page_without_a_place_is_refused(page: str) -> None:
    with pytest.raises(MissingMarkersError, match="peers K"):
        replaced(page, JOB, "new")
