"""deploy/standalone starts commands that there are, with flags that they take, and its page names every setting."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from configparser import ConfigParser
from typing import Any

import pytest
import typer.main
from ruamel.yaml import YAML

from headrace.cli.app import app
from headrace.core.config import parse_duration_ms
from headrace.rpc.time_settings import ClusterTimes, times_from
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
    unit.read_string((FOLDER / name).read_text())
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


def _services() -> dict[str, Any]:
    services: dict[str, Any] = YAML(typ="safe").load((FOLDER / "compose.yaml").read_text())["services"]
    return services


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


def test_containers_start_commands_that_there_are() -> None:
    services = _services()
    for service in services.values():
        _assert_runs(service["command"])
    assert {service["command"][1] for service in services.values()} == {"coordinator", "worker"}


def test_containers_find_their_coordinator_and_have_ids_of_their_own() -> None:
    services = _services()
    given = {
        name: dict(zip(each["command"][2::2], each["command"][3::2], strict=True)) for name, each in services.items()
    }
    address = f"coordinator:{given['coordinator']['--grpc-port']}"
    workers = {name: flags for name, flags in given.items() if name != "coordinator"}
    assert {flags["--coordinator"] for flags in workers.values()} == {address}
    assert {name: flags["--id"] for name, flags in workers.items()} == {name: name for name in workers}


@pytest.mark.parametrize("command", ["coordinator", "worker"])
def test_the_page_names_every_flag(command: str) -> None:
    page = (FOLDER / "README.md").read_text()
    table = page.partition(f"| `headrace {command}` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(--[a-z-]+)` \|", table, re.MULTILINE)) == _flags(command).keys() - {"--help"}


def test_the_page_names_every_variable() -> None:
    page = (FOLDER / "README.md").read_text()
    assert [name for name in _example() if f"`{name}`" not in page and not name.startswith("AWS_")] == []
