"""Checkpoint storage that is full or read-only for a while: the job goes on or starts again, and is exact afterwards.

The cluster runs in a mount namespace of its own, where the storage is a small file system: nothing outside is changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.clusters.session import Cluster
from support.processes.running import wait_until
from support.storage.small_storage import SmallStorage

pytestmark = [pytest.mark.broker, pytest.mark.turns(2, of="files")]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallStorage]:
    """Outlives the cluster."""
    small = SmallStorage(tmp_path_factory.mktemp("s") / "storage", "4m")
    yield small
    small.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, storage: SmallStorage) -> Iterator[Cluster]:
    """In the namespace."""
    cluster = Cluster(tmp_path_factory.mktemp("c"), prefix=storage.prefix)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def flow(cluster: Cluster, broker: EmbeddedBroker, storage: SmallStorage) -> Iterator[Flow]:
    """Keeps its checkpoints in the small file system."""
    with running_flow(cluster, broker, storage=str(storage.place)) as running:
        running.submit()
        running.wait_checkpoint()
        yield running
        running.finish()


def trouble(flow: Flow) -> str:
    """What the job says of its storage, now or as a failure."""
    status = flow.cluster.client.status(flow.job)
    return f"{status.message} {status.failure}"


@pytest.mark.full
def test_read_only_for_a_while(flow: Flow, storage: SmallStorage) -> None:
    storage.lock()
    wait_until(lambda: "Read-only file system" in trouble(flow), "the job says what is wrong")
    storage.unlock()

    flow.wait_checkpoint()
    flow.settle()
    flow.cluster.wait_state(flow.job, "RUNNING")


def test_full_for_a_while(flow: Flow, storage: SmallStorage) -> None:
    def is_told() -> bool:
        storage.fill()
        return "No space left" in trouble(flow)

    wait_until(is_told, "the job says what is wrong")
    storage.run(f"rm {storage.place}/filler")

    flow.wait_checkpoint()
    flow.settle()
    flow.cluster.wait_state(flow.job, "RUNNING")


@pytest.mark.full
def test_canceled_while_it_is_read_only(flow: Flow, storage: SmallStorage) -> None:
    """A job that is to end does not wait for its storage; it can be taken up from what it had."""
    last = flow.cluster.client.status(flow.job).checkpoint
    assert last is not None
    storage.lock()
    try:
        done = flow.cluster.headrace("cancel", flow.job)
        assert done.code == 0, done.err
    finally:
        storage.unlock()
    newest = flow.cluster.client.status(flow.job).checkpoint
    assert newest is not None
    flow.go_on(newest.path, "--take-over")
