"""The jobs of a home that has no ledger yet: files in `$HEADRACE_HOME/jobs/<job id>/`, until version 0.1.

job.json      the submission, with secrets: mode 0600
result.json   the end of the job
history.json  failures, attempts, rescales
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.ledger.records import Ended, HistoryKept, JobResult, Submitted
from headrace.coordinator.store.sealing import Sealer
from headrace.coordinator.store.submission import JobSubmission
from headrace.core.files.replaced_file import remove_file

LOG = logging.getLogger("headrace.coordinator")
_JOB_ID = re.compile(r"[0-9a-f]{12}\Z")
_FILES = ("job.json", "result.json", "history.json")
_Earlier = Submitted | HistoryKept | Ended


def earlier_jobs(root: Path, sealer: Sealer) -> tuple[list[_Earlier], list[Path]]:
    """Returns the changes that add the jobs below `root` to a ledger, and their folders. A job that cannot be read is
    logged, and its files are left alone."""
    changes: list[_Earlier] = []
    found = []
    for folder in _folders(root):
        try:
            changes += _changes(folder, sealer)
        except (OSError, ValidationError) as error:
            LOG.warning("job %s cannot be read and is left alone: %s", folder.name, error)
        else:
            found.append(folder)
    return changes, found


def remove_earlier_files(folders: Iterable[Path]) -> None:
    """Deletes the files of jobs that are in the ledger now: they contain secrets. Called once the record is durable."""
    for folder in folders:
        for name in _FILES:
            remove_file(folder / name)


def _folders(root: Path) -> list[Path]:
    # a folder without job.json is a submission that a crash interrupted before it was accepted
    if not root.is_dir():
        return []
    return sorted(each for each in root.iterdir() if _JOB_ID.match(each.name) and (each / "job.json").is_file())


def _changes(folder: Path, sealer: Sealer) -> list[_Earlier]:
    submission = JobSubmission.model_validate_json((folder / "job.json").read_bytes())
    changes: list[_Earlier] = [Submitted(job=folder.name, sealed=sealer.seal(submission.model_dump_json().encode()))]
    history, result = folder / "history.json", folder / "result.json"
    if history.is_file():
        kept = JobHistory.model_validate_json(history.read_bytes())
        changes.append(HistoryKept(job=folder.name, history=kept))
    if result.is_file():
        changes.append(Ended(job=folder.name, result=JobResult.model_validate_json(result.read_bytes())))
    return changes
