"""Hosts with coordinators, workers, the three servers of a ZooKeeper, and storage: the leader is cut off from each.

m, n         a coordinator each
a, b         a worker each
z1, z2, z3   a server of ZooKeeper each
s            storage: the ledger and the checkpoints
here         brokers and users

data         brokers, ZooKeeper, storage, rows between slots
control      workers and clients to coordinators
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, exact_flow
from support.clusters.network_hosts import CONTROL, DATA, HERE, Network, running_network
from support.clusters.standbys import StandbyCluster
from support.kafka.broker import broker_config
from support.leadership.zookeeper import Place, ZooKeeper, zookeeper
from support.patience import BROKER_SESSION, SHORT_STANDBY_LEASES
from support.processes.running import wait_until
from support.storage.s3_server import BUCKET, s3_server

pytestmark = [pytest.mark.broker, pytest.mark.full]

COORDINATORS, WORKERS = ("m", "n"), ("a", "b")
SERVERS, STORAGE = ("z1", "z2", "z3"), "s"
CHECKPOINTS = 6
"""One a second: together longer than a session of `SHORT_STANDBY_LEASES`."""


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def network(stack: ExitStack) -> Network:
    return stack.enter_context(running_network(*COORDINATORS, *WORKERS, *SERVERS, STORAGE))


@pytest.fixture(scope="module")
def broker(stack: ExitStack, network: Network, tmp_path_factory: pytest.TempPathFactory) -> EmbeddedBroker:
    told = broker_config(tmp_path_factory.mktemp("kafka"), settings=BROKER_SESSION)
    return stack.enter_context(EmbeddedBroker(replace(told, host=network.address(HERE))))


@pytest.fixture(scope="module")
def servers(stack: ExitStack, network: Network, tmp_path_factory: pytest.TempPathFactory) -> ZooKeeper:
    places = [Place(network.address(name), network.hosts[name].prefix) for name in SERVERS]
    return stack.enter_context(zookeeper(tmp_path_factory.mktemp("z"), len(SERVERS), places))


@pytest.fixture(scope="module")
def cluster(
    stack: ExitStack, network: Network, servers: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> StandbyCluster:
    folder = tmp_path_factory.mktemp("s")
    storage = stack.enter_context(s3_server(network.address(STORAGE), network.hosts[STORAGE].prefix))
    (folder / "key").write_text("the key of this deployment\n")
    no_proxy = ",".join(
        network.address(name, each) for name in (HERE, STORAGE, *COORDINATORS) for each in (DATA, CONTROL)
    )
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


def _asked_server(cluster: StandbyCluster, network: Network) -> str:
    """The host of the server that the leader's session is connected to; waits for the connection."""
    found: list[str] = []

    def connected() -> bool:
        host = _host(cluster)
        found[:] = [name for name in SERVERS if network.connections(host, name)]
        return len(found) == 1

    wait_until(connected, "the leader is connected to ZooKeeper")
    return found[0]


def _follower_that_is_asked(cluster: StandbyCluster, network: Network, servers: ZooKeeper) -> str:
    """The same, and it does not lead the ensemble: an ensemble without its leader serves nobody for a while."""
    while (asked := _asked_server(cluster, network)) == SERVERS[servers.leader() - 1]:
        servers.restart(servers.leader())
    return asked


@contextmanager
def undisturbed(cluster: StandbyCluster, servers: ZooKeeper, flow: Flow) -> Iterator[None]:
    """Afterwards all servers serve, the same coordinator leads in the same term, and the same attempt runs, exactly."""
    leader, term = cluster.leader(), cluster.term()
    attempt = cluster.wait_state(flow.job, "RUNNING").attempt
    yield
    servers.wait_serving(len(SERVERS))
    assert (cluster.leader(), cluster.term()) == (leader, term)
    assert cluster.wait_state(flow.job, "RUNNING").attempt == attempt
    flow.settle()


def test_a_server_that_the_leader_is_connected_to_is_cut_off(
    cluster: StandbyCluster, network: Network, servers: ZooKeeper, flow: Flow
) -> None:
    """The leader goes on with another server, within its session: to the job nothing has happened."""
    asked = _follower_that_is_asked(cluster, network, servers)
    with undisturbed(cluster, servers, flow), network.unplugged(asked, DATA):
        wait_until(lambda: _asked_server(cluster, network) != asked, "the leader asks another server")
        flow.wait_checkpoint()
        # what changes something is accepted again
        saved = cluster.headrace("savepoint", flow.job, str(cluster.folder / "saved"))
        assert saved.code == 0, saved.err


def test_a_server_that_the_leader_is_not_connected_to_is_cut_off(
    cluster: StandbyCluster, network: Network, servers: ZooKeeper, flow: Flow
) -> None:
    asked, ensemble = _asked_server(cluster, network), SERVERS[servers.leader() - 1]
    other = next(name for name in SERVERS if name not in {asked, ensemble})
    with undisturbed(cluster, servers, flow), network.unplugged(other, DATA):
        # for longer than a session
        for _ in range(CHECKPOINTS):
            flow.wait_checkpoint()


def test_the_server_that_leads_the_ensemble_is_cut_off(
    cluster: StandbyCluster, network: Network, servers: ZooKeeper, flow: Flow
) -> None:
    """Nobody is served until the others have noticed it and chosen another one: for longer than a session, here. So a
    coordinator may have to give up, and one leads afterwards."""
    gone = servers.leader()
    with network.unplugged(SERVERS[gone - 1], DATA):
        wait_until(lambda: servers.leader() != gone, "another server leads the ensemble")
        wait_until(lambda: cluster.health(cluster.leader()) == "ok", "a coordinator leads")
        flow.wait_checkpoint()
        flow.settle()
    servers.wait_serving(len(SERVERS))
    flow.wait_checkpoint()


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


def test_a_leader_that_is_cut_off_from_the_election(cluster: StandbyCluster, network: Network, flow: Flow) -> None:
    """From all servers of ZooKeeper: it still reaches workers, clients, storage and brokers."""
    host, term = _host(cluster), cluster.term()
    with flow.recovering("leader cut off from election"), network.cut_between(host, *SERVERS):
        cluster.wait_later_term(term)
        flow.wait_other_attempt()
        flow.wait_checkpoint()
    assert _host(cluster) != host


def test_a_leader_that_is_cut_off_from_storage(cluster: StandbyCluster, network: Network, flow: Flow) -> None:
    """It reaches everything else, and keeps its job until it has waited for its ledger long enough."""
    host, term = _host(cluster), cluster.term()
    pid = cluster.leader()
    with flow.recovering("leader cut off from storage"), network.cut_between(host, STORAGE):
        cluster.wait_later_term(term)
        flow.wait_other_attempt()
        flow.wait_checkpoint()
        assert _host(cluster) != host
    wait_until(lambda: cluster.health(pid) == "standby", "it is a standby")
    assert "leads no more: its ledger has been out of reach for long" in cluster.log(host)


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
