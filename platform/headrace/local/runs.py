"""The runs of this home that were cut off and may be taken up again: `$HEADRACE_HOME/runs/<pipeline>.json`.

Written when a run begins, removed when it has read all of its input. What is newest in a run is its journal's to say.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.checkpoint.journal_shell import JournalStore
from headrace.checkpoint.store import open_store
from headrace.core.errors import ExternalError, UserError
from headrace.core.replaced_file import replace_file
from headrace.core.settings import Home


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run. `storage`: URL of its checkpoint folder; `pid`: of the process that runs or ran it."""

    job: str
    storage: str
    pid: int


def record_run(home: Home, pipeline: str, run: RecordedRun) -> None:
    """Remembers the newest run of a pipeline."""
    path = _path(home, pipeline)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(run)).encode())
    except OSError as cause:
        raise ExternalError(
            f"{path} cannot be written: {cause.strerror}", remedy="make room, or set HEADRACE_HOME"
        ) from cause


def recorded_run(home: Home, pipeline: str) -> RecordedRun:
    """The run of a pipeline that may be taken up again. Raises UserError where there is none, or it still runs."""
    path = _path(home, pipeline)
    try:
        run = RecordedRun(**json.loads(path.read_text()))
    except FileNotFoundError as cause:
        raise UserError(
            f"there is no run of {pipeline} to resume in {home.root}", remedy="leave --resume out to begin anew"
        ) from cause
    except (OSError, ValueError, TypeError) as cause:
        raise UserError(f"{path} cannot be read: {cause}", remedy="leave --resume out to begin anew") from cause
    if run.pid != os.getpid() and _runs(run.pid):
        raise UserError(f"the run of {pipeline} still goes on, as process {run.pid}", remedy="end that one first")
    return run


def forget_run(home: Home, pipeline: str, run: RecordedRun) -> None:
    """The run has read all of its input: nothing of it is kept."""
    _path(home, pipeline).unlink(missing_ok=True)
    store = open_store(run.storage)
    store.delete(store.list(""))
    if "://" not in store.url:
        shutil.rmtree(store.url, ignore_errors=True)


def forget_if_nothing_kept(home: Home, pipeline: str, run: RecordedRun) -> None:
    """The run was cut off by an error: it is forgotten, but for one that has a checkpoint. What that one decided may
    be visible, or about to be, and only its journal knows."""
    if not JournalStore(open_store(run.storage), "", "").load().checkpoints:
        forget_run(home, pipeline, run)


def _path(home: Home, pipeline: str) -> Path:
    return home.root / "runs" / f"{pipeline}.json"


def _runs(pid: int) -> bool:
    """Whether that process is there and is a headrace: the system gives pids out again."""
    try:
        return b"headrace" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
