"""What each test file costs, as measured in earlier runs, and which one a test process takes next.

`tests/durations.json` maps each tier's files to seconds. `python -m support.suite.durations` writes it from the last
run of either tier, which left its figures in pytest's cache.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath

from support.repository import ROOT

Seconds = Mapping[str, float]
"""File -> seconds, set-up and tear-down of its fixtures included."""
COMMIT, FULL = "commit", "full"
UNKNOWN_SECONDS = 120.0
"""For a file that has not been measured: such a one may be long, and would be the end of the run if it came late."""
MEASURED = ROOT / "tests" / "durations.json"
CACHE_KEY = "headrace/seconds-{}"
"""Where a run of the tier leaves its figures in pytest's cache."""
WITH_FOLDER = {"tests/conformance/test_resource_drivers.py": "tests/integration/yarn"}
"""Files that use what the tests of another folder start: a process takes them as if they were there."""
_PLENTY = 2.0
"""The order of files matters once each process has less to do than so many times the longest of them."""


def durations(tier: str) -> Seconds:
    """Those of the commit tier stand in for files that the full tier has not measured."""
    measured = _read()
    return measured[COMMIT] | measured[FULL] if tier == FULL else measured[COMMIT]


def cost_s(seconds: Seconds, file: str) -> float:
    """What a file is expected to take."""
    return seconds.get(file, UNKNOWN_SECONDS)


def next_file(
    files: Sequence[str],
    seconds: Seconds,
    *,
    processes: int,
    last: str | None,
    others: Collection[str] = (),
) -> str:
    """Which of the remaining `files` a process takes whose last file was `last`, while the `others` run those files.

    The longest one, so that short ones end the run. While there is plenty to do, however, a process stays in its
    folder, because it then keeps the folder's fixtures, such as a cluster, and leaves the folders of others alone,
    because it would start such a cluster once more.
    """

    cost = partial(cost_s, seconds)
    longest = max(files, key=cost)
    if sum(map(cost, files)) / processes <= _PLENTY * cost(longest):
        return longest
    mine, theirs = None if last is None else _folder(last), {_folder(file) for file in others}
    near = [file for file in files if _folder(file) == mine]
    apart = [file for file in files if _folder(file) not in theirs]
    return max(near or apart or files, key=cost)


def _folder(file: str) -> PurePosixPath:
    return PurePosixPath(WITH_FOLDER.get(file, PurePosixPath(file).parent))


def main() -> int:
    """Takes over the figures of the last runs. Files that those did not run keep theirs, unless they are gone."""
    measured = _read()
    for tier in (COMMIT, FULL):
        file = ROOT / ".pytest_cache" / "v" / CACHE_KEY.format(tier)
        fresh = json.loads(file.read_text()) if file.exists() else {}
        found = measured[tier] | {name: round(new, 1) for name, new in fresh.items()}
        measured[tier] = {name: seconds for name, seconds in found.items() if (ROOT / name).exists()}
    ordered = {tier: dict(sorted(found.items())) for tier, found in measured.items()}
    MEASURED.write_text(json.dumps(ordered, indent=1) + "\n")
    return 0


def _read() -> dict[str, dict[str, float]]:
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    return {COMMIT: {}, FULL: {}} | measured


if __name__ == "__main__":
    sys.exit(main())
