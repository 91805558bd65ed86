"""The units of deploy/standalone, set up by its page on a host with a systemd of its own: run as they are written."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from support.clusters.network_hosts import Namespace
from support.deployment.page_commands import sections
from support.deployment.service_host import ServiceHost
from support.patience import CLUSTER_TIMES
from support.processes.running import wait_until
from support.repository import ROOT

FOLDER = ROOT / "deploy/standalone"
COORDINATOR, WORKER = "headrace-coordinator", "headrace-worker@h1"
ADDRESS = "127.0.0.1"
CLIENT = f"HEADRACE_COORDINATOR=http://{ADDRESS}:8480 HEADRACE_TOKEN_FILE=token /opt/headrace/bin/headrace"
PIPELINE = """\
name: numbers
checkpoint: {interval: 200ms}
sources:
  numbers:
    generator: {rate: 200, columns: {n: {sequence: {}}}}
    schema: {n: int64}
sinks:
  out:
    from: numbers
    print: {}
    format: json
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceHost]:
    """Set up by the page: the commands of `With systemd`, then those that start both units."""
    work = tmp_path_factory.mktemp("systemd")
    for file in FOLDER.iterdir():
        (work / file.name).write_bytes(file.read_bytes())
    for token in ("token", "metrics-token"):
        (work / token).write_text(f"{token} of tests\n")
    (work / "numbers.yaml").write_text(PIPELINE)
    with ExitStack() as stack:
        namespace = Namespace()
        stack.callback(namespace.close)
        made = ServiceHost("h1", namespace.prefix, work / "h1", work)
        stack.callback(made.close)
        made.install("0.1.0", None)
        # the page's virtual environment, and the user that Prometheus comes with
        made.run("ln -s headrace-0.1.0 /opt/headrace && useradd --system prometheus")
        set_up, _ = sections(FOLDER / "README.md")["With systemd"]
        for command in set_up:
            made.run(command.text)
        made.set(
            {
                **CLUSTER_TIMES,
                "HEADRACE_METRICS_TOKEN_FILE": "/etc/headrace/metrics-token",
                "HEADRACE_CONTROL": f"{ADDRESS}:8481",
            }
        )
        made.run(f"systemctl enable --now {COORDINATOR}")
        made.run("headrace-role answers")
        made.run("systemctl enable --now headrace-worker@$(hostname)")
        yield made


@pytest.fixture(scope="module")
def job(host: ServiceHost) -> str:
    """Without end; it runs."""
    host.run(f"{CLIENT} submit numbers.yaml")
    wait_running(host)
    return "numbers"


def wait_running(host: ServiceHost) -> None:
    wait_until(lambda: "RUNNING" in host.run(f"{CLIENT} status numbers"), "the job runs")


def processes(host: ServiceHost, user: str = "headrace") -> dict[int, str]:
    """Pid -> command line, of a user."""
    lines = host.run(f"ps -u {user} -o pid= -o args= || true").splitlines()
    return {int(pid): command for pid, _, command in (line.strip().partition(" ") for line in lines)}


def status(host: ServiceHost, pid: int, field: str) -> str:
    return host.run(f"sed -n 's/^{field}:[[:space:]]*//p' /proc/{pid}/status").strip()


def processes_of(host: ServiceHost, unit: str) -> list[int]:
    group = host.shown(unit, "ControlGroup")
    return [int(pid) for pid in host.run(f"cat '/sys/fs/cgroup{group}/cgroup.procs'").split()]


def soft_limit(host: ServiceHost, pid: int) -> int:
    """How many files it may open."""
    return int(host.run(f"sed -n 's/^Max open files *//p' /proc/{pid}/limits").split()[0])


def test_systemd_knows_every_line_of_the_units(host: ServiceHost) -> None:
    """It would log a line that it does not know, and ignore it."""
    assert host.run(f"systemd-analyze verify {COORDINATOR}.service {WORKER}.service 2>&1") == ""


def test_processes_have_the_user_and_the_limits_of_their_unit(host: ServiceHost, job: str) -> None:
    found = processes(host)
    uid = host.run("id -u headrace").strip()
    assert any("headrace-coordinator" in each for each in found.values()), found
    assert any("headrace-slot" in each for each in found.values()), found
    for pid in found:
        assert status(host, pid, "Uid").split() == [uid] * 4
        # setuid programs give it nothing
        assert status(host, pid, "NoNewPrivs") == "1"
    (limit,) = {soft_limit(host, pid) for pid in processes_of(host, WORKER)}
    # systemd cannot go beyond what the tests themselves may open
    assert limit == min(65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert {soft_limit(host, pid) for pid in processes_of(host, COORDINATOR)} != {limit}
    assert host.run("stat --format '%U:%G %a' /var/lib/headrace") == "headrace:headrace 700\n"
    assert "root" not in host.run("find /var/lib/headrace -printf '%u\\n' | sort -u")


def test_a_monitor_reads_the_token_that_the_coordinator_serves(host: ServiceHost) -> None:
    token = host.run(
        "setpriv --reuid prometheus --regid prometheus --init-groups cat /etc/headrace/metrics-token"
    ).strip()
    assert "headrace_" in host.run(
        f"curl -sS --fail -H 'Authorization: Bearer {token}' http://{ADDRESS}:8480/v1/metrics"
    )
    for secret in ("token", "headrace.env"):
        host.run(f"! setpriv --reuid prometheus --regid prometheus --init-groups cat /etc/headrace/{secret}")


def is_started_again(host: ServiceHost, unit: str) -> bool:
    return host.shown(unit, "NRestarts") == "1"


def test_what_dies_is_started_again_and_the_job_goes_on(host: ServiceHost, job: str) -> None:
    for unit in (COORDINATOR, WORKER):
        before = host.shown(unit, "MainPID")
        host.run(f"kill -KILL {before}")
        wait_until(partial(is_started_again, host, unit), "systemd starts it again")
        host.run("headrace-role leader")
        wait_running(host)
        assert host.shown(unit, "MainPID") != before


def test_a_stop_is_in_order_within_the_time_of_the_unit(host: ServiceHost, job: str) -> None:
    """A job runs, and no slot stays for it then: neither unit is killed, and nothing of it is left."""
    for unit in (WORKER, COORDINATOR):
        host.run(f"systemctl stop {unit}")
        assert (host.shown(unit, "ActiveState"), host.shown(unit, "Result")) == ("inactive", "success")
    assert processes(host) == {}
    host.run(f"systemctl start {COORDINATOR} {WORKER}")
    host.run("headrace-role leader")
    wait_running(host)
