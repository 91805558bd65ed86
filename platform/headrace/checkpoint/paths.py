"""The names of all objects in checkpoint storage; no other module defines one.

    <storage>/<job>/journal/00000001.json                                  records, by number
                    state/<attempt>-<epoch>-<task>-<subtask>-<random>.parquet
                    staged/<attempt>-<epoch>-<sink>-<subtask>-<number>-<random>.parquet   result rows to be published
                    code/<hash>-<kind>/<name>                              user code shipped with the job
    <directory>/savepoint-<job>-<epoch>-<random>/state/..                  as in a job's folder
                                                 manifest.json             written last

All names are relative to the folder of the job or savepoint. Two writers can put an object of the same name only if it
is a journal record, or user code, which is equal then: other names contain a random part (`unique_names`), and are
written once. `absolute` completes a relative path by the working directory and the user's home; nothing else here reads
the environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

JOURNAL = "journal/"
STATE = "state/"
STAGED = "staged/"
CODE = "code/"
MANIFEST = "manifest.json"

_RECORD = re.compile(r"journal/(\d{8,})\.json\Z")
_STATE_FILE = re.compile(r"state/(\d+)-(\d+)-([^-/]+)-(\d+)-[^-/]+\.parquet\Z")


@dataclass(frozen=True, slots=True)
class StateFile:
    """The parts of a state file's name."""

    attempt: int
    epoch: int
    task: str
    subtask: int


def joined(base: str, path: str) -> str:
    """`path` below the folder `base`; an absolute path or URL is returned unchanged."""
    return path if is_absolute(path) else f"{base.rstrip('/')}/{path}"


def is_absolute(path: str) -> bool:
    """Whether a path in a manifest is absolute: the file is not in the job's own folder."""
    return "://" in path or path.startswith("/")


def parted(url: str) -> tuple[str, str]:
    """`file:///a/b/c` -> (`file:///a/b`, `c`): an object's folder and its name in it."""
    folder, _, name = url.rstrip("/").rpartition("/")
    return folder or "/", name


def absolute(url: str) -> str:
    """The absolute path of a path on this host; a URL is returned unchanged."""
    return url if "://" in url else str(Path(url).expanduser().absolute())


def job_url(storage: str, job: str) -> str:
    """URL of a job's folder."""
    return joined(absolute(storage), job)


def record_path(number: int) -> str:
    """A journal record, relative to the job's folder."""
    return f"{JOURNAL}{number:08d}.json"


def record_number(path: str) -> int | None:
    """The number in a record's path (relative to the job's folder, or a whole URL); None: not a record."""
    match = _RECORD.search(path)
    return int(match[1]) if match else None


def state_path(attempt: int, epoch: int, task: str, subtask: int, unique: str) -> str:
    """A state file, relative to the folder of the job or savepoint."""
    return f"{STATE}{attempt}-{epoch}-{task}-{subtask}-{unique}.parquet"


def staged_path(attempt: int, epoch: int, sink: str, subtask: int, number: int, unique: str) -> str:
    """A file of result rows to be published, relative to the job's folder."""
    return f"{STAGED}{attempt}-{epoch}-{sink}-{subtask}-{number}-{unique}.parquet"


def state_file(path: str) -> StateFile | None:
    """The parts of a state file's name; None: not a state file."""
    match = _STATE_FILE.search(path)
    return StateFile(int(match[1]), int(match[2]), match[3], int(match[4])) if match else None


def code_path(name: str, kind: str, digest: str) -> str:
    """User code, relative to the job's folder. Equal code has the same path; the path's last part is the file's import
    name."""
    return f"{CODE}{digest}-{kind}/{name}"


def savepoint_url(directory: str, job: str, epoch: int, unique: str) -> str:
    """URL of a new savepoint's folder in the user's directory."""
    return joined(absolute(directory), f"savepoint-{job}-{epoch}-{unique}")
