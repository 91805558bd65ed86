"""Imports the modules that a slot needs for its start and its first batch, and that planning does not import.

A template imports this module before the first fork (`worker.slot.main.preload`).
"""

import headrace.exchange.network.incoming
import headrace.formats.csv.decode
import headrace.formats.csv.encode
import headrace.formats.json.decode
import headrace.formats.json.encode
import headrace.formats.parquet
import headrace.formats.raw
import headrace.state.parquet
import headrace.worker.slot.memory_decay
import headrace.worker.slot.runtime  # noqa: F401 - all of these are for their effect
