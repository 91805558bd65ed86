"""State of savepoints, checkpoints and jobs as polars frames, as `headrace state` shows it. The engine is imported on
the first call.

    with_totals = headrace.open_state("savepoints/savepoint-4f2a-12-09c1")
    with_totals.read("totals", key={"shop": "north"})
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from headrace.local.output.found_state import FoundState


class State:
    """The state of one checkpoint or savepoint, which `open_state` has found. Its files are read by each call."""

    def __init__(self, place: FoundState) -> None:
        self._place = place

    @property
    def path(self) -> str:
        """URL of the savepoint's manifest, or of the checkpoint's record."""
        return self._place.found.url

    @property
    def epoch(self) -> int:
        """The checkpoint's number."""
        return self._place.found.manifest.epoch

    @property
    def age_s(self) -> float:
        """Seconds from the checkpoint's barrier until it was opened."""
        return self._place.age_ms / 1000

    def list(self) -> pl.DataFrame:
        """Returns a row for each state: node, state, kind, keys, rows, bytes; and one for the positions of each
        source."""
        import polars as pl

        from headrace.checkpoint.inspection.stored_state import states_of
        from headrace.checkpoint.inspection.views import POSITIONS, Positions

        manifest = self._place.found.manifest
        rows = [(each.node, each.state, each.kind, [*each.keys], each.rows, each.bytes) for each in states_of(manifest)]
        for source, state in sorted(manifest.sources.items()):
            rows.append((source, POSITIONS, "source", [*Positions.keys], len(state.splits), 0))
        texts: dict[str, pl.DataType] = dict.fromkeys(("node", "state", "kind"), pl.String())
        schema = {**texts, "keys": pl.List(pl.String), "rows": pl.Int64(), "bytes": pl.Int64()}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def read(
        self,
        node: str | None = None,
        state: str | None = None,
        *,
        key: Mapping[str, object] | None = None,
        where: str | None = None,
    ) -> pl.DataFrame:
        """Returns the state of a node: of a step the rows of its output, of a source its positions.

        node    None: the only step with state
        state   the rows of this state, as they are kept
        key     only rows with these values of key columns; a whole key is looked up without reading other keys
        where   only rows for which this expression is true
        Raises UserError for what there is not, ExternalError for files that are damaged or missing.
        """
        import polars as pl

        from headrace.checkpoint.inspection.selection import selected, typed_key
        from headrace.checkpoint.inspection.views import open_view

        view = open_view(self._place.found.manifest, node, state)
        frames = selected(view, typed_key(view, key or {}), where)
        return pl.concat([pl.DataFrame(schema=dict(view.columns)), *frames])

    def diff(self, other: State, node: str | None = None) -> pl.DataFrame:
        """Returns a row for each state of this one and a later one: node, state, rows before and after, numbers of
        rows added, removed and changed, and the columns that differ. node: only its states."""
        import polars as pl

        from headrace.checkpoint.inspection.difference import differences

        found = [
            (
                each.node,
                each.state,
                each.rows_before,
                each.rows_after,
                each.added,
                each.removed,
                each.changed,
                [*each.columns],
            )
            for each in differences(self._place.found.manifest, other._place.found.manifest, node)
        ]
        counts = ("rows_before", "rows_after", "added", "removed", "changed")
        texts: dict[str, pl.DataType] = dict.fromkeys(("node", "state"), pl.String())
        schema = {**texts, **dict.fromkeys(counts, pl.Int64()), "columns": pl.List(pl.String)}
        return pl.DataFrame(found, schema=schema, orient="row")


def open_state(
    path_or_job: str | PathLike[str],
    *,
    epoch: int | None = None,
    fresh: bool = False,
    coordinator: str | None = None,
) -> State:
    """Finds a savepoint, a checkpoint, or the newest checkpoint of a job of a cluster.

    epoch   which of the job's retained checkpoints; None: the newest
    fresh   a checkpoint of the running job is taken first
    Raises UserError if there is none, UnreachableError.
    """
    from headrace.local.output.found_state import find_state

    return State(find_state(fspath(path_or_job), epoch=epoch, fresh=fresh, coordinator=coordinator))
