"""State files of a job whose slots are killed: each attempt names those of earlier ones, and no file is left over."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.job_folder.orphans import GRACE_MS, delete_orphans
from headrace.checkpoint.journal.journal import Journal, own_files
from headrace.checkpoint.manifest import Manifest, located
from headrace.checkpoint.paths import MANIFEST, STATE, is_absolute, state_file
from headrace.checkpoint.savepoints.savepoint import damage, find
from headrace.checkpoint.stores.opening import open_store
from support.clusters.session import Cluster, kill
from support.processes.running import wait_until
from support.remembering import python_path

pytestmark = pytest.mark.full

PIPELINE = """\
name: remembering
parallelism: 2
checkpoint: {{interval: 500ms, retained: 20, storage: "{storage}"}}
restart: {{strategy: exponential-delay, initial: 100ms, max: 200ms}}
batch: {{max_rows: 1000}}
sources:
  numbers:
    generator: {{rate: 5000, columns: {{n: {{sequence: {{}}}}}}}}
    schema: {{n: int64 not null}}
steps:
  known: {{from: numbers, remember: [n]}}
sinks:
  out: {{from: known, print: {{}}, format: json}}
"""
ROWS_LEAST = 20_000
"""Keys that are known before the first strike."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    # a prefix: interpreters that start anew import `sitecustomize`, those that are forked do not
    cluster = Cluster(tmp_path, prefix=["env"], python_path=python_path(tmp_path / "site"))
    try:
        cluster.start(workers=2, slots=2)
        yield cluster
    finally:
        cluster.end()


class Kept:
    """The journal and the files of the job."""

    def __init__(self, folder: str) -> None:
        self.store = open_store(folder)

    def journal(self) -> Journal:
        """As it is now."""
        return JournalStore(self.store, "", "").load()

    def newest(self) -> Manifest | None:
        """The newest checkpoint."""
        checkpoints = self.journal().checkpoints
        return checkpoints[-1].manifest if checkpoints else None

    def wait_first_after(self, attempt: int) -> tuple[Manifest, Manifest]:
        """The last checkpoint before the next attempt, and the first one of that."""
        found: list[tuple[Manifest, Manifest]] = []

        def is_there() -> bool:
            manifests = [each.manifest for each in self.journal().checkpoints]
            found[:] = [(last, first) for last, first in pairwise(manifests) if last.attempt <= attempt < first.attempt]
            return bool(found)

        wait_until(is_there, f"a checkpoint of an attempt after {attempt}")
        return found[0]


def rows(manifest: Manifest) -> int:
    """Known keys."""
    return sum(handle.rows for handle in manifest.states)


def written(manifest: Manifest, attempt: int) -> tuple[int, int]:
    """Rows and bytes in files of an attempt and later ones."""
    named, size = 0, 0
    for part in {part for handle in manifest.states for part in handle.files}:
        about = state_file(part.path)
        assert about is not None
        if about.attempt >= attempt:
            named, size = named + part.rows, size + part.bytes
    return named, size


def require_exact(manifest: Manifest) -> None:
    """Every number up to the source's position is known, once."""
    (split,) = manifest.sources["numbers"].splits
    assert rows(manifest) == split.position


def require_claimed(cluster: Cluster, earlier: Kept, path: str, folder: Path) -> None:
    """Another job claims the savepoint: its checkpoints name the files in place, also after a kill, and all else that
    the savepoint was is gone."""
    saved = find(path).manifest
    named = {part.path: part.rows for handle in saved.states for part in handle.files}
    # as many subtasks as wrote it, so that no row group is cut
    asked = ("--from-savepoint", path, "--claim", "--parallelism", "3")
    job = cluster.headrace("submit", "flow.yaml", *asked).out.strip()
    kept = Kept(earlier.store.url.rpartition("/")[0] + f"/{job}")
    wait_until(lambda: kept.newest() is not None, "a checkpoint")
    attempt = cluster.wait_state(job, "RUNNING").attempt
    kill(cluster.wait_busy_slots(job)[0])
    for newest in kept.wait_first_after(attempt):
        require_exact(newest)
        parts = [part for handle in newest.states for part in handle.files if is_absolute(part.path)]
        assert sum(part.rows for part in parts) == sum(named.values()), "nothing of it is written again"
        assert {part.path for part in parts} == named.keys()
        assert damage(located(newest, kept.store.url)) is None
    wait_until(lambda: not Path(path, MANIFEST).exists(), "nobody else begins with it")
    assert {str(each) for each in Path(path, STATE).iterdir()} == named.keys()
    assert cluster.headrace("cancel", job).code == 0


def test_after_kills_a_rescale_and_savepoints_no_file_is_left_over_and_none_is_missing(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "flow.yaml").write_text(PIPELINE.format(storage=tmp_path / "checkpoints"))
    job = cluster.headrace("submit", "flow.yaml").out.strip()
    kept = Kept(str(tmp_path / "checkpoints" / job))
    wait_until(lambda: (newest := kept.newest()) is not None and rows(newest) >= ROWS_LEAST, "keys are known")

    for _ in range(3):
        attempt = cluster.wait_state(job, "RUNNING").attempt
        kill(cluster.wait_busy_slots(job)[0])
        last, first = kept.wait_first_after(attempt)
        require_exact(first)
        new_rows, new_bytes = written(first, first.attempt)
        assert new_rows == rows(first) - rows(last), "what was restored is not written again"
        assert new_bytes < first.bytes

    saved = cluster.headrace("savepoint", job, str(tmp_path / "savepoints"), "--json").json["path"]
    attempt = cluster.wait_state(job, "RUNNING").attempt
    assert cluster.headrace("rescale", job, "--parallelism", "3").code == 0
    last, first = kept.wait_first_after(attempt)
    assert len(first.states) == 3
    require_exact(first)
    assert written(first, first.attempt)[0] < rows(first), "row groups that were not cut are named again"
    kill(cluster.wait_busy_slots(job)[0])
    kept.wait_first_after(first.attempt)

    done = cluster.headrace("stop", job, "--savepoint", str(tmp_path / "savepoints"), "--json")
    for path in (saved, done.json["path"]):
        found = find(path).manifest
        require_exact(found)
        assert damage(found) is None
        assert all(part.path.startswith(path) for handle in found.states for part in handle.files)
    require_claimed(cluster, kept, done.json["path"], tmp_path)
    journal = kept.journal()
    # attempts that were killed have left files of checkpoints that were never complete
    delete_orphans(kept.store, journal, round(time.time() * 1000) + 2 * GRACE_MS)
    named = {path for record in journal.checkpoints for path in own_files(record.manifest)}
    assert set(kept.store.list(STATE)) == named
