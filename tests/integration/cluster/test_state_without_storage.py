"""State beyond memory, while the storage of checkpoints refuses or is silent: rows go on, checkpoints fail and come
again, local files stay bounded, and state and output are exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clusters.session import Cluster, frozen, running_cluster
from support.clusters.state_on_disk import KEYS, checkpointed, local_bytes, require_exact, submitted
from support.patience import SHORT_CHECKPOINT_TIMEOUT
from support.processes.running import wait_until
from support.storage.s3_server import BUCKET, S3Server, s3_server
from support.storage.small_storage import SmallStorage

pytestmark = pytest.mark.turns(2, of="files")

GOES_ON = ", tolerable_failures: 1000"


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallStorage]:
    """Outlives the cluster."""
    small = SmallStorage(tmp_path_factory.mktemp("s") / "storage", "1g")
    yield small
    small.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, storage: SmallStorage) -> Iterator[Cluster]:
    """In the namespace."""
    cluster = Cluster(tmp_path_factory.mktemp("c"), prefix=storage.prefix)
    try:
        cluster.start(workers=1, slots=1)
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture(scope="module")
def s3_cluster(tmp_path_factory: pytest.TempPathFactory, server: S3Server) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in server.environment().items():
            environment.setenv(name, value)
        with running_cluster(tmp_path_factory.mktemp("c"), workers=1, slots=1) as running:
            yield running


def rows_in(cluster: Cluster, job: str) -> int:
    status = cluster.status(job)
    return 0 if status is None else sum(node.rows_in for node in status.nodes if node.node == "by_key")


def trouble(cluster: Cluster, job: str) -> str:
    """What the job says of its storage, now or as a failure."""
    status = cluster.status(job)
    return "" if status is None else f"{status.message} {status.failure}"


def mapped_bytes(cluster: Cluster, folder: Path) -> int:
    """Bytes of local files that slots have, those of rows that nobody but an upload needs, too."""
    sizes = 0
    for slot in cluster.slots():
        for line in Path(f"/proc/{slot}/maps").read_text().splitlines():
            if f" {folder}/local/" in line:
                begin, end = line.split()[0].split("-")
                sizes += int(end, 16) - int(begin, 16)
    return sizes


def wait_on_disk(cluster: Cluster, job: str) -> None:
    """Until all keys have come, and state lies in local files."""
    wait_until(lambda: local_bytes(cluster, job) > 0 and rows_in(cluster, job) > KEYS, "state is in local files")


def require_goes_on(cluster: Cluster, job: str, folder: Path) -> None:
    """All keys come once more. Local files have what the table has, what a merge makes of it, and what an upload has
    taken, at most: not the rows of every checkpoint that fails."""
    before, held, mapped = rows_in(cluster, job), 0, 0

    def came() -> bool:
        nonlocal held, mapped
        held, mapped = max(held, local_bytes(cluster, job)), max(mapped, mapped_bytes(cluster, folder))
        return rows_in(cluster, job) > before + KEYS

    wait_until(came, "rows go on")
    assert 0 < mapped <= 3 * held


def require_ends_exact(cluster: Cluster, job: str, folder: Path, *, after: int) -> None:
    """Checkpoints come again; then nothing but the table has local files."""
    wait_until(lambda: checkpointed(cluster, job) > after, "a checkpoint after that")
    wait_until(
        lambda: mapped_bytes(cluster, folder) <= 1.25 * local_bytes(cluster, job), "failed uploads have no files"
    )
    path = cluster.headrace("stop", job, "--savepoint", str(folder / "savepoints"), "--json").json["path"]
    require_exact(path, folder)


def test_storage_refuses(cluster: Cluster, storage: SmallStorage, tmp_path: Path) -> None:
    job = submitted(cluster, tmp_path, name="refused", storage=str(storage.place), checkpoint=GOES_ON)
    wait_on_disk(cluster, job)
    storage.lock()
    wait_until(lambda: "Read-only file system" in trouble(cluster, job), "the job says what is wrong")
    epoch = checkpointed(cluster, job)
    require_goes_on(cluster, job, tmp_path)
    assert checkpointed(cluster, job) == epoch
    storage.unlock()
    wait_until(lambda: checkpointed(cluster, job) > epoch, "a checkpoint after that")
    # a stop that is late ends the attempt
    assert cluster.client.status(job).attempt == 1
    require_ends_exact(cluster, job, tmp_path, after=epoch)


@pytest.mark.full
def test_storage_refuses_and_the_attempt_ends(cluster: Cluster, storage: SmallStorage, tmp_path: Path) -> None:
    """As jobs are that tolerate no failed checkpoint: they start again, once storage is back."""
    job = submitted(cluster, tmp_path, name="ended", storage=str(storage.place))
    wait_on_disk(cluster, job)
    storage.lock()
    wait_until(lambda: "Read-only file system" in trouble(cluster, job), "the job says what is wrong")
    epoch = checkpointed(cluster, job)
    storage.unlock()
    wait_until(lambda: cluster.client.status(job).attempt > 1, "another attempt runs")
    require_ends_exact(cluster, job, tmp_path, after=epoch)


@pytest.mark.full
def test_storage_is_silent(s3_cluster: Cluster, server: S3Server, tmp_path: Path) -> None:
    settings = f"{GOES_ON}, timeout: {SHORT_CHECKPOINT_TIMEOUT}"
    job = submitted(s3_cluster, tmp_path, name="silent", storage=f"s3://{BUCKET}/silent", checkpoint=settings)
    wait_on_disk(s3_cluster, job)
    with frozen(server.process.pid):
        wait_until(lambda: "was not complete after" in trouble(s3_cluster, job), "the job says what is wrong")
        require_goes_on(s3_cluster, job, tmp_path)
        epoch = checkpointed(s3_cluster, job)
    wait_until(lambda: checkpointed(s3_cluster, job) > epoch, "a checkpoint after that")
    # a stop that is late ends the attempt
    assert s3_cluster.client.status(job).attempt == 1
    require_ends_exact(s3_cluster, job, tmp_path, after=epoch)
