"""Modules, libraries and threads that a process has once it has started, by kind of process. A module is a cost on
every start; for the engine, which is loaded once and then forked, a library that starts threads or keeps locks is a
fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

BEGIN = """
import gc

def collections():
    return sum(generation["collections"] for generation in gc.get_stats())

gc.collect()
begun = collections()
"""
LOOK = """
collected = collections() - begun
import json, os, sys, threading

with open("/proc/self/maps") as maps:
    libraries = sorted({line.split()[-1].rpartition("/")[2] for line in maps if ".so" in line})
names = []
for task in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{task}/comm") as name:
        names.append(name.read().strip())
print(json.dumps({
    "modules": sorted(sys.modules),
    "libraries": libraries,
    "threads": [thread.name for thread in threading.enumerate()],
    "tasks": sorted(names),
    "collections": collected,
}))
"""


@dataclass(frozen=True)
class Loaded:
    """What a process has loaded and started.

    threads       those that Python knows
    tasks         those that the system knows
    collections   how often it has collected garbage since its start
    """

    modules: list[str]
    libraries: list[str]
    threads: list[str]
    tasks: list[str]
    collections: int

    def within(self, packages: set[str]) -> list[str]:
        """The modules of these packages."""
        return [name for name in self.modules if any(name == each or name.startswith(f"{each}.") for each in packages)]


def loaded_by(code: str, home: Path | None = None) -> Loaded:
    """Looks at a fresh interpreter after `code`."""
    answer = subprocess.run(
        [sys.executable, "-c", f"{BEGIN}\n{code}\n{LOOK}"],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | ({} if home is None else {"HEADRACE_HOME": str(home)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return Loaded(**json.loads(answer.stdout.splitlines()[-1]))


ENGINE = """
from headrace.processes.template.process import preload
preload(["headrace.worker.slot.main", "headrace.coordinator.connector_host.main"])
"""
LIVE_HALVES = {"confluent_kafka", "fsspec", "grpc", "kafka", "kopf", "kubernetes", "psycopg", "s3fs", "sqlalchemy"}
LIVE_HALVES |= {"urllib3"}
REGISTRY = {
    "confluent_kafka.schema_registry",
    "httpx2",
    "authlib",
    "joserfc",
    "cachetools",
    "headrace.formats.registry",
}
"""What a schema registry takes: a quarter of a CPU-second, and memory of each process, for jobs that use none."""
LIVE_HALVES |= REGISTRY
"""Clients of the world outside: they load when a job opens what needs them, never with a connector's config."""
FOREIGN_LIBRARIES = ("cygrpc", "librdkafka", "cimpl", "psycopg")
ENGINE_TASKS = {"python", "jemalloc_bg_thd", "polars-ooc-clea"}
"""The main thread, and those that polars starts when it is imported."""


def test_the_engine_loads_no_client_and_starts_no_thread() -> None:
    loaded = loaded_by(ENGINE)
    wanted = {"headrace_connectors.kafka", "headrace_connectors.sql", "polars"}
    wanted |= {"headrace.worker.slot.runtime", "headrace.execution.connectors", "headrace.formats.json.decode"}
    assert wanted <= set(loaded.modules)
    assert loaded.within(LIVE_HALVES | {"pandas"}) == []
    assert [name for name in loaded.libraries if any(each in name for each in FOREIGN_LIBRARIES)] == []
    assert loaded.threads == ["MainThread"]
    assert set(loaded.tasks) <= ENGINE_TASKS
    assert loaded.tasks.count("python") == 1, "numpy's OpenBLAS has started threads"


HOSTS = """
from headrace.coordinator.connector_host.connector_host import HOST_PROGRAMS
from headrace.processes.template.process import preload
preload(HOST_PROGRAMS)
"""
NOT_FOR_HOSTS = {"grpc", "psycopg", "s3fs", "sqlalchemy"}
"""Clients that no connector names for its hosts."""


def test_hosts_share_the_clients_that_connectors_name_and_these_start_no_thread() -> None:
    loaded = loaded_by(HOSTS)
    assert {"headrace_connectors.kafka.transactions.committer", "confluent_kafka"} <= set(loaded.modules)
    assert loaded.within(NOT_FOR_HOSTS | REGISTRY) == []
    assert loaded.threads == ["MainThread"]
    assert set(loaded.tasks) <= ENGINE_TASKS
    assert loaded.tasks.count("python") == 1


ROWS = """
import polars as pl
from headrace.connect import registry
from headrace.connect.format import Messages
from headrace.core.arrow_arrays import binary_array
from headrace.core.types import schema_of
from headrace.exchange.edge.rows import Rows
from headrace.exchange.network.wire import BatchEncoder

for name, good in (("json", b'{"n": 1, "t": null}'), ("csv", b"1,x")):
    decoder = registry.format_named(name).config().open_decoder(schema_of({"n": "int64", "t": "string"}))
    for size in (1, 100):
        decoded = decoder.decode(Messages(binary_array([good, None, b"broken"] * size)))
        assert (decoded.rows.height, len(decoded.bad)) == (size, size), decoded
for rows in (decoded.rows, decoded.rows.clear()):
    BatchEncoder().encode(Rows.all_of(rows))
"""


def test_rows_load_no_pandas() -> None:
    assert loaded_by(ROWS).within({"pandas"} | REGISTRY) == []


FRAMES = """
from headrace.core.arrow_arrays import binary_array
from headrace.formats.registry.frames import read_frames
from headrace.formats.registry.id_table import IdTable
assert len(read_frames(binary_array([bytes(4) + bytes([number, 2]) for number in (1, 2)])).groups) == 2
"""


def test_frames_load_no_client_of_a_registry() -> None:
    """A slot reads them; its job's connector host asks the registry."""
    assert loaded_by(FRAMES).within((REGISTRY | {"pandas", "confluent_kafka"}) - {"headrace.formats.registry"}) == []


SERVING = {
    "coordinator": """
import uvicorn
from headrace.coordinator.connector_host.connector_host import PROGRAM
from headrace.coordinator.dispatch.dispatcher import Dispatcher
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.main import serve
from headrace.coordinator.rest.app import rest_app
""",
    "worker": """
from headrace.cli.cluster.worker import worker
from headrace.processes.template.client import own_starter
from headrace.rpc.time_settings import times_from
from headrace.worker.supervision.advertise import address_towards
from headrace.worker.supervision.slot_process import PROGRAM
from headrace.worker.supervision.supervisor import Supervisor
""",
}
"""What the processes of a cluster import before they serve."""


@pytest.mark.parametrize("role", SERVING)
def test_a_cluster_serves_before_it_loads_the_engine(role: str) -> None:
    loaded = loaded_by(SERVING[role])
    assert "grpc" in loaded.modules
    engine = ENGINE_PACKAGES - {"orjson"} | {"headrace.operators", "headrace_connectors"}
    assert loaded.within(engine | (ON_DEMAND - {"asyncio", "grpc"})) == []


ELECTION_IN_A_POD = """
from headrace.kubernetes import access, transport
from headrace.leadership.kubernetes_election import KubernetesElector
import urllib3
"""


def test_a_pod_loads_no_client_of_kubernetes() -> None:
    loaded = loaded_by(ELECTION_IN_A_POD)
    assert loaded.within({"kubernetes", "yaml", "requests", "httpx"}) == []


COMMAND = """
import sys
sys.argv = ["headrace", *{arguments!r}]
from headrace.__main__ import main
try:
    main()
except SystemExit:
    pass
"""
SERVICES = {"fastapi", "grpc", "prometheus_client", "starlette", "uvicorn"}
"""What serves a cluster."""
ENGINE_PACKAGES = {"numpy", "orjson", "polars", "polars_hash", "pyarrow", "sqlglot"}
"""What plans and runs pipelines."""
ON_DEMAND = {"asyncio", "httpx", "hypothesis", "nicegui", "pandas", "py4j", "pyspark", "rich"} | LIVE_HALVES
ON_DEMAND |= {"headrace.ui"}
LIVE_OPERATORS = {
    "numpy",
    "headrace.core.keygroups",
    "headrace.operators.aggregation.running",
    "headrace.operators.window.operator",
}
"""What steps are opened with."""
CLIENT = {"httpx", "asyncio", "rich"}
"""The HTTP client and what it imports itself."""
FORBIDDEN = {
    "--version": ENGINE_PACKAGES | SERVICES | ON_DEMAND | {"pydantic", "headrace.cli.runs.run"},
    "--help": ENGINE_PACKAGES | SERVICES | ON_DEMAND | {"pydantic", "headrace.cli.runs.run"},
    "run --help": ENGINE_PACKAGES | SERVICES | ON_DEMAND | {"headrace.cli.spark.replay"},
    "list": ENGINE_PACKAGES | SERVICES | (ON_DEMAND - CLIENT),
    "status job": ENGINE_PACKAGES | SERVICES | (ON_DEMAND - CLIENT),
    "cancel job": ENGINE_PACKAGES | SERVICES | (ON_DEMAND - CLIENT),
    "savepoint job": ENGINE_PACKAGES | SERVICES | (ON_DEMAND - CLIENT),
    "validate {file}": LIVE_OPERATORS | {"pyarrow", "headrace.formats.json.decode"} | SERVICES | ON_DEMAND,
    "functions upper": {"headrace.operators", "headrace.spec", "headrace_connectors", "pyarrow"} | SERVICES | ON_DEMAND,
    "docs event-time": ENGINE_PACKAGES | SERVICES | ON_DEMAND | {"headrace.spec", "headrace.expr"},
    "cluster status": ENGINE_PACKAGES | SERVICES | (ON_DEMAND - CLIENT),
    "operator --help": ENGINE_PACKAGES | SERVICES | ON_DEMAND | {"headrace.kubernetes_operator"},
    "cluster stop": ENGINE_PACKAGES | SERVICES | (ON_DEMAND - CLIENT),
    "ui --help": ENGINE_PACKAGES | SERVICES | ON_DEMAND,
    "kafka --help": ENGINE_PACKAGES | SERVICES | ON_DEMAND,
    "explain {file}": {"headrace.formats.json.decode"} | SERVICES | ON_DEMAND,
    "submit {file}": {"headrace.formats.json.decode"} | SERVICES | (ON_DEMAND - CLIENT),
    "test {file}": SERVICES | (ON_DEMAND - CLIENT),
}
"""Command -> modules that it does not load, with all within them."""
EARLY_COLLECTIONS = 3
"""Before the module that defers them is imported; a start that defers none has 30 to 200."""
PIPELINE = """
name: sums
sources:
  numbers:
    kafka: {brokers: "localhost:1", topic: numbers}
    format: json
    schema: {n: int64, at: timestamp}
    time: {column: at}
steps:
  some: {from: numbers, filter: n % 7 > 1}
  roots: {from: some, select: {m: sqrt(n * 2), k: n // 10}}
  sums: {from: roots, key_by: [k], window: {tumbling: 1m}, aggregate: {s: sum(m), e: min(m)}}
sinks: {out: {from: sums, print: {}}}
"""


@pytest.mark.parametrize("command", FORBIDDEN)
def test_a_command_loads_what_it_uses(command: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    arguments = [word.format(file=file) for word in command.split()]
    loaded = loaded_by(COMMAND.format(arguments=arguments), home=tmp_path)
    assert "typer" in loaded.modules
    assert loaded.within(FORBIDDEN[command]) == []
    assert loaded.collections <= EARLY_COLLECTIONS, "nothing that a start makes is garbage"


SUBMITTED = """
import httpx
from headrace.cli.submission.submission import load_to_submit, travelling_code
from headrace.client.requests import SubmitRequest
from headrace.client.submission import file_form
loaded = load_to_submit({file!r}, None, None)
code = travelling_code(loaded, {file!r}, py_files=None, archives=None)
SubmitRequest(pipeline=file_form(loaded.pipeline), code=code)
"""


def test_a_pipeline_is_submitted_without_the_engine(tmp_path: Path) -> None:
    """The coordinator plans; only what it refuses is planned here too."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    loaded = loaded_by(SUBMITTED.format(file=str(file)))
    engine = ENGINE_PACKAGES - {"orjson"} | {"headrace.plan", "headrace.expr"}
    assert loaded.within(engine | SERVICES | (ON_DEMAND - CLIENT)) == []
