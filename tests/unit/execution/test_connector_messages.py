"""What hosts answer about output survives its way as JSON."""

from __future__ import annotations

from headrace.connect.sink import OpenTransaction, OutputSeen
from headrace.execution.connector_messages import SeenDocument, TransactionDocument


def test_an_open_transaction_comes_back_as_it_was() -> None:
    there = OpenTransaction(
        "headrace-j-out-1-0-0", "out", "j", 1, 0, "Ongoing", 5, 900_000, ("t[0]", "t[1]"), {"producer_id": 7}, True
    )
    sent = TransactionDocument.of(there).model_dump_json()
    assert TransactionDocument.model_validate_json(sent).transaction() == there


def test_a_digest_of_128_bits_comes_back_as_it_was() -> None:
    seen = OutputSeen(3, (1 << 127) + 5, settled=True, doubts=("compacted",))
    assert SeenDocument.model_validate_json(SeenDocument.of(seen).model_dump_json()).seen() == seen
