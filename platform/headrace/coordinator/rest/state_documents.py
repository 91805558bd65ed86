"""Builds the REST API's documents about the state of a job: of its newest complete checkpoint in storage. Blocking.

What reads rows is loaded with the first request for rows.
"""

from __future__ import annotations

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.manifest import Manifest, located
from headrace.checkpoint.savepoints.savepoint import checkpoint_url
from headrace.checkpoint.stores.opening import open_store
from headrace.client.models import moment
from headrace.client.state_models import PositionInfo, StateInfo, StateList, StateQuery, StateRows
from headrace.coordinator.rest.service import JobConflictError


def state_list(storage: str, now_ms: int) -> StateList:
    """Returns the states of the job in this storage. Raises JobConflictError if it has no complete checkpoint."""
    from headrace.checkpoint.inspection.stored_state import states_of

    path, manifest = _newest(storage)
    states = tuple(
        StateInfo(
            node=each.node,
            state=each.state,
            kind=each.kind,
            keys=each.keys,
            rows=each.rows,
            bytes=each.bytes,
            columns=each.columns,
        )
        for each in states_of(manifest)
    )
    positions = tuple(
        PositionInfo(
            source=source,
            topic=split.topic,
            partition=split.partition,
            position=split.position,
            finished=split.finished,
        )
        for source, state in sorted(manifest.sources.items())
        for split in state.splits
    )
    return StateList(
        epoch=manifest.epoch,
        path=path,
        created_at=moment(manifest.created_at_ms),
        age_ms=max(0, now_ms - manifest.created_at_ms),
        states=states,
        positions=positions,
        steps=tuple(sorted(manifest.definitions.keys() & {each.node for each in states})),
    )


def state_rows(storage: str, query: StateQuery, now_ms: int) -> StateRows:
    """Returns rows of the state of a node. Raises JobConflictError if the job has no complete checkpoint, UserError for
    a node, state or key that there is not."""
    from headrace.checkpoint.inspection.selection import first_rows, parse_key, selected
    from headrace.checkpoint.inspection.views import open_view
    from headrace.core.text.row_text import json_row

    path, manifest = _newest(storage)
    view = open_view(manifest, query.node, query.state)
    frames = selected(view, parse_key(view, query.key), None)
    # one more than asked for, which only says that there is one
    found, _ = first_rows(view, frames, query.rows + 1, total=query.rows + 1)
    return StateRows(
        epoch=manifest.epoch,
        path=path,
        age_ms=max(0, now_ms - manifest.created_at_ms),
        node=view.node,
        state=view.state,
        keys=view.keys,
        columns={name: str(dtype) for name, dtype in view.columns.items()},
        rows=tuple(json_row(row) for row in found.head(query.rows).to_dicts()),
        more=found.height > query.rows,
    )


def _newest(storage: str) -> tuple[str, Manifest]:
    """Returns path and located manifest of the newest complete checkpoint."""
    checkpoints = JournalStore(open_store(storage), "", "").load().checkpoints
    if not checkpoints:
        raise JobConflictError("the job has no complete checkpoint yet", remedy="take one first, or ask again later")
    record = checkpoints[-1]
    return checkpoint_url(storage, record), located(record.manifest, storage)
