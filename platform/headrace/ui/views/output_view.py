"""What a job has put out: open transactions, dead letters, and the verdicts of an audit. Pure."""

from __future__ import annotations

from headrace.client.models import AuditReport, JobStatus
from headrace.client.output_models import DeadLetterList, TransactionList
from headrace.ui.views.cluster_view import Row
from headrace.ui.views.formats import NONE, bytes_text, count_text, duration_text, time_text

LETTERS_SHOWN = 100
VALUE_LENGTH = 200


def open_transaction_rows(status: JobStatus) -> tuple[Row, ...]:
    """The open transactions of a running job, as its slots report them, the oldest first."""
    return tuple(
        {
            "name": each.name,
            "sink": each.sink,
            "subtask": each.subtask,
            "age": duration_text(each.age_ms),
            "state": "prepared" if each.prepared else "open",
        }
        for each in status.transactions
    )


def transaction_rows(found: TransactionList) -> tuple[Row, ...]:
    """Transactions as their external system has them, with the action that is safe."""
    return tuple(
        {
            "name": each.name,
            "sink": each.sink,
            "state": each.state,
            "age": duration_text(each.age_ms),
            "safe": each.safe,
            "why": each.why,
            "holds": ", ".join(each.holds_back) or NONE,
        }
        for each in found.transactions
    )


def letter_rows(found: DeadLetterList) -> tuple[Row, ...]:
    """Dead letters, the newest first."""
    return tuple(
        {
            "id": f"{each.topic}-{each.partition}-{each.offset}",
            "node": each.node,
            "at": time_text(each.at),
            "origin": each.origin or NONE,
            "reason": each.reason or NONE,
            "value": (each.value or "")[:VALUE_LENGTH],
            "bytes": bytes_text(each.bytes),
        }
        for each in reversed(found.letters)
    )


def audit_rows(report: AuditReport) -> tuple[Row, ...]:
    """The verdict of each sink."""
    return tuple(
        {
            "sink": each.sink,
            "verdict": each.verdict,
            "rows": count_text(each.rows),
            "expected": count_text(each.expected_rows),
            "epoch": NONE if each.epoch is None else each.epoch,
            "reasons": "; ".join(each.reasons) or NONE,
        }
        for each in report.sinks
    )
