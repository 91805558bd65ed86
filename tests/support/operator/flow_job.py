"""The flow of `support.clusters.kafka_flow` as a HeadraceJob, and a small job beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.clusters.kafka_flow import Flow

CLUSTER_NAME, NAME = "session", "flow"
SMALL = """\
name: departures
checkpoint: {interval: 1s}
sources: {n: {generator: {rate: 5, columns: {n: {sequence: {}}}}, schema: {n: int64}}}
sinks: {o: {from: n, print: {}, format: json}}
"""


def spec_of(flow: Flow, added: str = "", **fields: object) -> dict[str, Any]:
    """The spec of the flow's job. added: a further step."""
    saved = str(flow.cluster.folder / "saved")
    text = Path(flow.file(added=added)).read_text()
    return {"pipeline": text, "cluster": CLUSTER_NAME, "savepointFolder": saved, "onDelete": "savepoint", **fields}
