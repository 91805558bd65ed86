"""The commands of deploy/standalone/high-availability.md, on three hosts, below a flow that is exactly-once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import __version__
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.clusters.network_hosts import CONTROL, DATA, HERE, Network, running_network
from support.deployment import aws
from support.deployment.other_version import other_version
from support.deployment.page_commands import sections
from support.deployment.standby_hosts import PAGE, StandbyHosts
from support.kafka.broker import broker_config
from support.leadership.zookeeper import Place, zookeeper
from support.patience import BROKER_SESSION, STANDBY_TIMES
from support.processes.running import wait_until
from support.storage.s3_server import BUCKET, s3_server

pytestmark = [pytest.mark.broker, pytest.mark.full]

HOSTS = ("h1", "h2", "h3")
LATER = "0.2.0"
"""The version that the page upgrades to: here a copy that says so, and writes a later format of the ledger."""


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def network(stack: ExitStack) -> Network:
    return stack.enter_context(running_network(*HOSTS))


@pytest.fixture(scope="module")
def broker(stack: ExitStack, network: Network, tmp_path_factory: pytest.TempPathFactory) -> EmbeddedBroker:
    told = broker_config(tmp_path_factory.mktemp("kafka"), settings=BROKER_SESSION)
    return stack.enter_context(EmbeddedBroker(replace(told, host=network.address(HERE))))


@pytest.fixture(scope="module")
def hosts(stack: ExitStack, network: Network, tmp_path_factory: pytest.TempPathFactory) -> StandbyHosts:
    here = network.address(HERE)
    servers = stack.enter_context(zookeeper(tmp_path_factory.mktemp("z"), 3, [Place(here)] * 3))
    storage = stack.enter_context(s3_server(here))
    no_proxy = ",".join(network.address(name, each) for name in (HERE, *HOSTS) for each in (DATA, CONTROL))
    # this process asks no proxy for the way to the hosts
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    for variable in ("NO_PROXY", "no_proxy"):
        patch.setenv(variable, no_proxy)
    program = tmp_path_factory.mktemp("bin")
    (program / "aws").symlink_to(Path(aws.__file__).resolve())
    patch.setenv("PATH", f"{program}:{os.environ['PATH']}")
    names = {
        "zk1.example.internal,zk2.example.internal,zk3.example.internal": servers.hosts,
        "s3://bucket/": f"s3://{BUCKET}/",
        "s3://backup/": f"s3://{BUCKET}/backup/",
    }
    own = {**STANDBY_TIMES, **storage.environment(), "NO_PROXY": no_proxy, "no_proxy": no_proxy}
    made = StandbyHosts(tmp_path_factory.mktemp("hosts"), network, names, own)
    later = other_version(tmp_path_factory.mktemp("later"), LATER)
    made.add_hosts({"0.1.0": None, LATER: later})
    stack.callback(made.end)
    return made


@pytest.fixture(scope="module")
def flow(hosts: StandbyHosts, broker: EmbeddedBroker) -> Iterator[Flow]:
    """Submitted by the page."""
    with running_flow(hosts, broker, name="orders", exactly_once=True) as running:
        running.file()
        hosts.run("Install")
        hosts.run("Start")
        running.job = hosts.client.status("orders").job_id
        hosts.wait_state(running.job, "RUNNING")
        running.wait_checkpoint()
        running.settle()
        yield running


def test_the_hosts_are_started(hosts: StandbyHosts, flow: Flow) -> None:
    assert hosts.workers() == set(HOSTS)
    leader = hosts.leading()
    for name, host in hosts.hosts.items():
        host.run(f'test "$(headrace-role)" = {"leader" if name == leader else "standby"}')
    assert flow.job


def test_everything_is_restarted(hosts: StandbyHosts, flow: Flow) -> None:
    leader, term = hosts.leading(), hosts.term()
    with flow.recovering("everything restarted"):
        hosts.run("Restart everything")
    assert hosts.leading() != leader
    # one term more: standbys that restart disturb nothing
    assert hosts.term() > term
    wait_until(lambda: hosts.workers() == set(HOSTS), "all workers have joined")


def test_the_software_is_upgraded(hosts: StandbyHosts, flow: Flow) -> None:
    """Old workers beside a new leader are refused, and come back as new ones."""
    assert {each.version for each in hosts.client.cluster().workers} == {__version__}
    with flow.recovering("upgraded"):
        hosts.run("Upgrade")
    wait_until(lambda: hosts.workers() == set(HOSTS), "all workers have joined")
    found = hosts.client.cluster()
    assert {found.version, *(each.version for each in found.workers)} == {LATER}


def test_an_earlier_version_does_not_join_a_later_ledger(hosts: StandbyHosts, flow: Flow) -> None:
    """It ends and says why, before it could be elected; nobody notices."""
    term, attempt = hosts.term(), hosts.client.status(flow.job).attempt
    early = next(host for name, host in hosts.hosts.items() if name != hosts.leading())
    early.run("ln -sfn headrace-0.1.0 /opt/headrace")
    early.run("systemctl restart headrace-coordinator")
    refused = f"has format 2, written by headrace {LATER}: this version reads up to 1, and does not lead"
    wait_until(lambda: refused in early.log("headrace-coordinator"), "it does not join")
    early.run("ln -sfn headrace-0.2.0 /opt/headrace")
    # started again by systemd
    early.run("headrace-role standby")
    assert (hosts.term(), hosts.client.status(flow.job).attempt) == (term, attempt)


def test_a_back_up_of_all_is_recovered_on_new_hosts(hosts: StandbyHosts, flow: Flow) -> None:
    with flow.recovering("recovered"):
        hosts.run("Back-up", blocks=slice(0, 2))
        lose_everything(hosts)
        hosts.run("Recovery")
    assert hosts.workers() == set(HOSTS)


def test_an_audit_tells_that_a_back_up_is_older_than_the_output(hosts: StandbyHosts, flow: Flow) -> None:
    """The last one: rows are there twice afterwards, as the page says."""
    hosts.run("Back-up")
    hosts.wait_state(flow.job, "RUNNING")
    flow.wait_checkpoint()
    flow.settle()
    with flow.feed.paused():
        flow.wait_exact()
        lose_everything(hosts)
        *before, audit, _ = sections(PAGE)["Recovery"]
        hosts.run("Recovery", blocks=slice(0, len(before)))
        assert [command.text for command in audit] == ["headrace audit orders"]
        done = hosts.headrace("audit", "orders")
        assert (done.code, "rows more than the job wrote" in done.out) == (2, True), done.out + done.err
        hosts.run("Recovery", blocks=slice(-1, None))
        hosts.wait_state(flow.job, "RUNNING")
        wait_until(lambda: bool(flow.output.read().contradictions), "rows come again")
        assert all("is there twice" in each for each in flow.output.seen.contradictions)


def lose_everything(hosts: StandbyHosts) -> None:
    """All hosts with their processes and files, and the bucket; key and token were kept."""
    hosts.lose_hosts()
    hosts.run_client("aws s3 rm --recursive s3://bucket/headrace")
    hosts.add_hosts(hosts.versions)
    # without the block that makes a key and a token, and in the version of the back-up
    hosts.run("Install", blocks=slice(1, None))
    hosts.run("Upgrade", blocks=slice(0, 1))


def test_every_section_is_run_by_a_test() -> None:
    assert list(sections(PAGE)) == ["Install", "Start", "Restart everything", "Upgrade", "Back-up", "Recovery"]
