"""deploy/standalone starts commands that there are, with flags that they take, and its page names every setting."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer.main
from ruamel.yaml import YAML

from headrace.cli.app import app
from headrace.core.config import parse_duration_ms
from headrace.rpc.time_settings import ClusterTimes, times_from
from support.patience import WAIT_SECONDS
from support.repository import ROOT

FOLDER = ROOT / "deploy/standalone"
UNITS = ("headrace-coordinator.service", "headrace-worker@.service")
VARIABLE = re.compile(r"\$\{([A-Z_]+)\}")
FROM_ELSEWHERE = re.compile(r"AWS_|HEADRACE_HOME$")
"""Variables of the example that no unit, no flag and no time setting names."""


def _unit(name: str) -> ConfigParser:
    unit = ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    # systemd's names are case-sensitive
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read(FOLDER / name)
    return unit


def _flags(command: str) -> dict[str, bool]:
    """Flags of a command of `headrace`, and whether each is required."""
    found = typer.main.get_group(app).commands[command]
    return {flag: param.required for param in found.params for flag in param.opts if flag.startswith("--")}


def _variables(command: str) -> set[str]:
    """Variables that a command of `headrace` reads in place of flags."""
    found = typer.main.get_group(app).commands[command]
    return {str(param.envvar) for param in found.params if param.envvar}


def _assert_runs(command: Sequence[str]) -> None:
    """That it is a command line of `headrace`: flags with values, those that are required among them."""
    program, verb, *rest = command
    assert program.rpartition("/")[2] == "headrace"
    flags = _flags(verb)
    given, values = rest[::2], rest[1::2]
    assert set(given) <= flags.keys()
    assert len(given) == len(values)
    assert not any(value.startswith("--") for value in values)
    assert {flag for flag, required in flags.items() if required} <= set(given)


def _example() -> dict[str, str]:
    """Variables of the example file, those that are commented out included."""
    lines = (FOLDER / "headrace.env.example").read_text().splitlines()
    return {found[1]: found[2] for line in lines if (found := re.fullmatch(r"#?([A-Z_]+)=(\S+)", line))}


def _services(file: str = "compose.yaml") -> dict[str, Any]:
    """Those that run headrace."""
    services: dict[str, Any] = YAML(typ="safe").load((FOLDER / file).read_text())["services"]
    return {name: each for name, each in services.items() if "command" in each}


def _given(file: str, verb: str) -> dict[str, dict[str, str]]:
    """Service -> flags of those that run this command."""
    found = {name: each["command"] for name, each in _services(file).items() if each["command"][1] == verb}
    return {name: dict(zip(command[2::2], command[3::2], strict=True)) for name, command in found.items()}


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_a_command_that_there_is(name: str) -> None:
    service = _unit(name)["Service"]
    _assert_runs(shlex.split(service["ExecStart"].replace("\\\n", " ")))
    # in order: only the main process is told, what it leaves behind is killed
    assert (service["Type"], service["KillMode"], service["Restart"]) == ("exec", "mixed", "on-failure")


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_waits_for_longer_than_its_process_takes(name: str) -> None:
    assert parse_duration_ms(_unit(name)["Service"]["TimeoutStopSec"]) >= 30_000


def test_the_example_sets_what_the_units_use_and_nothing_else() -> None:
    used = {name for unit in UNITS for name in VARIABLE.findall(_unit(unit)["Service"]["ExecStart"])}
    read = _variables("coordinator")
    example = _example()
    times = {f"HEADRACE_{name.upper()}" for name in ClusterTimes.__dataclass_fields__}
    assert used | read <= example.keys()
    assert [name for name in example if name not in used | read | times and not FROM_ELSEWHERE.match(name)] == []


def test_the_example_shows_the_default_times() -> None:
    example = _example()
    times = {f"HEADRACE_{name.upper()}" for name in ClusterTimes.__dataclass_fields__}
    assert times <= example.keys()
    assert times_from(example) == ClusterTimes()


@pytest.mark.parametrize("file", ["compose.yaml", "compose-ha.yaml"])
def test_containers_start_commands_that_there_are(file: str) -> None:
    services = _services(file)
    for service in services.values():
        _assert_runs(service["command"])
    assert {service["command"][1] for service in services.values()} == {"coordinator", "worker"}


def test_containers_find_their_coordinator_and_have_ids_of_their_own() -> None:
    (coordinator,) = _given("compose.yaml", "coordinator").values()
    workers = _given("compose.yaml", "worker")
    assert {flags["--coordinator"] for flags in workers.values()} == {f"coordinator:{coordinator['--grpc-port']}"}
    assert {name: flags["--id"] for name, flags in workers.items()} == {name: name for name in workers}


def test_containers_with_standbys_share_election_and_ledger_and_have_names_of_their_own() -> None:
    file = "compose-ha.yaml"
    coordinators, workers = _given(file, "coordinator"), _given(file, "worker")
    everything = YAML(typ="safe").load((FOLDER / file).read_text())
    servers = [name for name, each in everything["services"].items() if "ZOO_MY_ID" in each.get("environment", {})]
    election = f"zookeeper://{','.join(servers)}/headrace"
    assert (len(servers), len(coordinators), len(workers)) == (3, 3, 2)
    assert {flags["--ha"] for flags in coordinators.values()} == {election}
    assert {flags["--coordinator"] for flags in workers.values()} == {election}
    assert {name: flags["--advertise"] for name, flags in coordinators.items()} == {name: name for name in coordinators}
    assert {name: flags["--id"] for name, flags in workers.items()} == {name: name for name in workers}
    # the ledger is in what all of them mount
    (ledger,) = {flags["--ledger"] for flags in coordinators.values()}
    assert all(each["volumes"] == [f"shared:{ledger}"] for each in _services(file).values())
    for name, server in enumerate(servers, 1):
        settings = everything["services"][server]["environment"]
        assert settings["ZOO_MY_ID"] == str(name)
        assert f"server.{name}={server}:2888:3888;2181" in settings["ZOO_SERVERS"].split()


def test_the_health_check_of_containers_accepts_a_standby(tmp_path: Path) -> None:
    """Its program is run against an answer of each kind."""
    (program,) = {
        each["healthcheck"]["test"][3] for each in _services("compose-ha.yaml").values() if "healthcheck" in each
    }
    compile(program, "health check", "exec")
    for answer, healthy in (("ok", True), ("standby", True), ("other", False)):
        with _answering(json.dumps({"status": answer})) as port:
            text = program.replace(":8480/", f":{port}/").replace("/var/lib/headrace", str(tmp_path))
            (tmp_path / "cluster").mkdir(exist_ok=True)
            (tmp_path / "cluster/metrics-token").write_text("t\n")
            done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=WAIT_SECONDS, check=False)
        assert (done.returncode == 0) == healthy


@contextmanager
def _answering(body: str) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("command", ["coordinator", "worker"])
def test_the_page_names_every_flag(command: str) -> None:
    page = (FOLDER / "README.md").read_text()
    table = page.partition(f"| `headrace {command}` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(--[a-z-]+)` \|", table, re.MULTILINE)) == _flags(command).keys() - {"--help"}


def test_the_page_names_every_variable() -> None:
    page = (FOLDER / "README.md").read_text()
    assert [name for name in _example() if f"`{name}`" not in page and not name.startswith("AWS_")] == []
