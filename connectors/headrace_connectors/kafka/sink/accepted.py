"""The records of a batch without those that Kafka refuses for themselves: their rows are refused (`SinkContext`)."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from headrace.connect.row_check import Refused
from headrace.connect.sink import SinkBatch, SinkContext
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.record_sender import RecordSender
from headrace_connectors.kafka.sink.records import Records
from headrace_connectors.kafka.sink.refusals import UnwritableRows, open_refused_records


class AcceptedRecords:
    """Makes the records of one writer."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext, sender: RecordSender) -> None:
        self._context, self._sender = context, sender
        self._unwritable = UnwritableRows(config, context.schema)
        self._refused = open_refused_records(config)

    def of(self, batch: SinkBatch) -> Records | None:
        """The records of the accepted rows, in order; None if there are none."""
        refused = dict(self._unwritable.refused(batch.rows))
        records = self._records(batch, refused)
        if records is not None and (later := self._refused.refused(_without(batch, refused).rows, records)):
            numbers = [row for row in range(len(batch)) if row not in refused]
            refused |= {numbers[row]: refusal for row, refusal in later.items()}
            records = self._records(batch, refused)
        # all at once: they leave in the order of the rows
        self._context.refuse_rows(batch.rows, refused)
        return records

    def _records(self, batch: SinkBatch, refused: Refused) -> Records | None:
        return self._sender.records(_without(batch, refused)) if len(refused) < len(batch) else None


def _without(batch: SinkBatch, refused: Refused) -> SinkBatch:
    if not refused:
        return batch
    kept = ~pl.int_range(len(batch), eager=True).is_in(list(refused))
    assert batch.messages is not None, "a Kafka sink needs encoded messages"
    return SinkBatch(batch.rows.filter(kept), batch.messages.filter(pa.array(kept.to_list())))
