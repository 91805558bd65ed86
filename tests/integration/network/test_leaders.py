"""Two hosts with a coordinator each and two with a worker: one of the coordinators is cut off from something.

    data      brokers, ZooKeeper, storage, rows between slots
    control   workers and clients to coordinators

A leader that is cut off from `control` reaches the election and the ledger, and no worker; one that is cut off from
`data` reaches its workers, and neither election nor storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.network_hosts import CONTROL, DATA, HERE, Network, running_network
from support.clusters.standbys import StandbyCluster
from support.kafka.broker import broker_config
from support.leadership.zookeeper import zookeeper
from support.patience import BROKER_SESSION, SHORT_STANDBY_LEASES
from support.processes.running import wait_until
from support.storage.s3_server import BUCKET, s3_server

pytestmark = [pytest.mark.broker, pytest.mark.full]

COORDINATORS, WORKERS = ("m", "n"), ("a", "b")


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def network(stack: ExitStack) -> Network:
    return stack.enter_context(running_network(*COORDINATORS, *WORKERS))


@pytest.fixture(scope="module")
def broker(stack: ExitStack, network: Network, tmp_path_factory: pytest.TempPathFactory) -> EmbeddedBroker:
    told = broker_config(tmp_path_factory.mktemp("kafka"), settings=BROKER_SESSION)
    return stack.enter_context(EmbeddedBroker(replace(told, host=network.address(HERE))))


@pytest.fixture(scope="module")
def cluster(stack: ExitStack, network: Network, tmp_path_factory: pytest.TempPathFactory) -> StandbyCluster:
    folder, here = tmp_path_factory.mktemp("s"), network.address(HERE)
    servers = stack.enter_context(zookeeper(tmp_path_factory.mktemp("z"), host=here))
    storage = stack.enter_context(s3_server(here))
    (folder / "key").write_text("the key of this deployment\n")
    no_proxy = ",".join(network.address(name, each) for name in (HERE, *COORDINATORS) for each in (DATA, CONTROL))
    # this process asks no proxy for the way to the hosts
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    for variable in ("NO_PROXY", "no_proxy"):
        patch.setenv(variable, no_proxy)
    made = StandbyCluster(
        folder,
        f"zookeeper://{servers.hosts}/cluster",
        ("--ledger", f"s3://{BUCKET}/ha", "--key-file", str(folder / "key")),
        times=SHORT_STANDBY_LEASES,
        environment={**storage.environment(), "NO_PROXY": no_proxy, "no_proxy": no_proxy},
    )
    stack.callback(made.end)
    for name in COORDINATORS:
        made.start_coordinator(name, "--host", network.address(name, CONTROL), prefix=network.hosts[name].prefix)
    made.leader()
    for name in WORKERS:
        made.start_worker(name, "--host", network.address(name), prefix=network.hosts[name].prefix)
    wait_until(lambda: made.client.cluster().slots_free == 4, "slots")
    return made


@pytest.fixture(scope="module")
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with exact_flow(cluster, broker, exactly_once=True) as running:
        yield running


def _host(cluster: StandbyCluster) -> str:
    """The host of the leader."""
    return cluster.name_of(cluster.leader())


def test_a_leader_that_is_cut_off_from_its_workers(cluster: StandbyCluster, network: Network, flow: Flow) -> None:
    host, term = _host(cluster), cluster.term()
    with flow.recovering("leader cut off from workers"), network.unplugged(host, CONTROL):
        cluster.wait_later_term(term)
        flow.wait_other_attempt()
        flow.wait_checkpoint()
    assert _host(cluster) != host


def test_a_leader_that_is_cut_off_from_election_and_storage(
    cluster: StandbyCluster, network: Network, flow: Flow
) -> None:
    """It still reaches its workers and clients: it must not command those, nor answer these."""
    host, term = _host(cluster), cluster.term()
    with flow.recovering("leader cut off from election and storage"), network.unplugged(host, DATA):
        cluster.wait_later_term(term)
        flow.wait_other_attempt()
        flow.wait_checkpoint()
    assert _host(cluster) != host


def test_everything_is_restarted_one_after_the_other(cluster: StandbyCluster, network: Network, flow: Flow) -> None:
    """As the page about standalone clusters has it: workers, then standbys, the leader at last."""
    for name in WORKERS:
        # the job is on both of them, or on one with slots for all of it
        attempt = cluster.client.status(flow.job).attempt
        runs_there = name in cluster.hosts_of(flow.job)
        cluster.restart(name)
        wait_until(lambda: len(cluster.client.cluster().workers) == len(WORKERS), "it has joined again")
        status = cluster.wait_state(flow.job, "RUNNING")
        assert (status.attempt > attempt) == runs_there
        flow.wait_checkpoint()
    leader, term = _host(cluster), cluster.term()
    (standby,) = set(COORDINATORS) - {leader}
    pid = cluster.restart(standby)
    wait_until(lambda: cluster.health(pid) == "standby", "the standby is back")
    assert cluster.term() == term
    with flow.recovering("leader restarted"):
        cluster.restart(leader)
        cluster.wait_later_term(term)
    assert _host(cluster) == standby
