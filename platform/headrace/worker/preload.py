"""Imports the modules that subtasks use from their first batch on, and that planning leaves out.

A process that is loaded once and forked for each slot imports this module before the first fork.
"""

import headrace.formats.csv.decode
import headrace.formats.csv.encode
import headrace.formats.json.decode
import headrace.formats.json.encode
import headrace.formats.parquet
import headrace.formats.raw
import headrace.state.parquet
import headrace.worker.slot_runtime  # noqa: F401 - all of these are for their effect
