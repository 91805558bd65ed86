"""What an audit concludes from what it read and what checkpoints say."""

from __future__ import annotations

import pytest

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import AttemptRecord
from headrace.checkpoint.manifest import OutputTotal
from headrace.connect.sink import OutputSeen
from headrace.coordinator.output.job_audit import Proof, Totals, totals_of, verdict
from headrace.core.text.digest_text import digest_text

BEGIN = {"topic": "t", "offsets": {"0": 5}}
TOTALS = Totals(BEGIN, {epoch: OutputTotal(rows=10 * epoch, digest=digest_text(100 * epoch)) for epoch in (1, 2, 3)})


def seen(rows: int, digest: int, *doubts: str) -> OutputSeen:
    return OutputSeen(rows, digest, settled=True, doubts=doubts)


@pytest.mark.parametrize(
    ("output", "since", "proof", "epoch", "reason"),
    [
        (seen(30, 300), 3, Proof.PROVEN, 3, ""),
        (seen(20, 200), 2, Proof.PROVEN, 2, ""),
        (seen(20, 200), 3, Proof.DIFFERS, 3, "10 rows are missing"),
        (seen(30, 300, "compacted"), 3, Proof.PROVEN, 3, ""),
        (seen(29, 300, "compacted"), 3, Proof.UNPROVABLE, 3, "compacted"),
        (seen(29, 300), 3, Proof.DIFFERS, 3, "1 rows are missing"),
        (seen(30, 301), 3, Proof.DIFFERS, 3, "some are others"),
        (seen(33, 300), 3, Proof.UNPROVABLE, 3, "3 rows more"),
        (seen(0, 0), 1, Proof.DIFFERS, 3, "30 rows are missing"),
    ],
)
def test_the_table(output: OutputSeen, since: int, proof: Proof, epoch: int, reason: str) -> None:
    found = verdict(output, TOTALS, since)
    assert (found.proof, found.epoch) == (proof, epoch)
    assert reason in " ".join(found.reasons)


def test_nothing_written_is_proven_by_nothing_read() -> None:
    attempt = AttemptRecord(
        number=1, at_ms=1, attempt=1, parallelism=1, plan_hash="h", output={"out": OutputTotal(begin=BEGIN)}
    )
    totals = totals_of(Journal.load([attempt]))["out"]
    assert totals.begin == BEGIN
    assert verdict(seen(0, 0), totals, totals.newest).proof is Proof.PROVEN


def test_totals_of_deleted_checkpoints_stay_known() -> None:
    later = TOTALS.with_more(Totals({}, {4: OutputTotal(rows=40, digest=digest_text(400))}))
    assert (later.newest, later.begin) == (4, BEGIN)
    assert later.matching(seen(10, 100), 1) == 1
