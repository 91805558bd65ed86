"""`headrace run` ends when it is asked to, also if no last checkpoint can be taken: at the one before, and goes on from
there exactly. Docker kills 10 s after it has asked."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.clusters.gated_run import open_gate, rows, wait_checkpoint_after, written
from support.clusters.local import processes_of
from support.clusters.session import frozen
from support.kafka.broker import consume_all, create_topic, running_broker, unique_topic
from support.patience import BROKER_SESSION
from support.processes.running import Finished, Running, finish, headrace, start, start_with, wait_until
from support.third_party_site import third_party_path

DOCKER_SECONDS = 10.0

TROUBLE = """
import os, time
from pathlib import Path

import gate

HERE = Path(__file__).parent


def held(rows):
    if (HERE / "crash").exists():
        (HERE / "crashed").touch()
        os._exit(3)
    if (HERE / "hang").exists():
        (HERE / "hanging").touch()
        time.sleep(3_600)
    return gate.held(rows)
"""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a run writes that nothing happens to."""
    folder = written(tmp_path_factory.mktemp("straight") / "run")
    open_gate(folder)
    assert headrace(["run", "p.yaml"], folder).code == 0
    return rows(folder / "out")


def ended_in_time(process: Running, number: signal.Signals) -> Finished:
    """What it printed."""
    asked_s = time.monotonic()
    process.send_signal(number)
    ended = finish(process)
    assert time.monotonic() - asked_s < DOCKER_SECONDS
    return ended


@pytest.mark.parametrize(
    ("trouble", "sign", "number"),
    [
        ("crash", "crashed", signal.SIGTERM),
        ("hang", "hanging", signal.SIGINT),
        pytest.param("crash", "crashed", signal.SIGINT, marks=pytest.mark.full),
        pytest.param("hang", "hanging", signal.SIGTERM, marks=pytest.mark.full),
    ],
)
def test_it_ends_at_its_last_checkpoint(
    trouble: str, sign: str, number: signal.Signals, tmp_path: Path, expected: list[str]
) -> None:
    folder = written(tmp_path / "run")
    (folder / "trouble.py").write_text(TROUBLE)
    text = (folder / "p.yaml").read_text()
    assert "gate:held" in text
    (folder / "p.yaml").write_text(text.replace("gate:held", "trouble:held"))
    process = start(["run", "p.yaml"], folder)
    wait_checkpoint_after(0, folder / "home")
    (folder / trouble).touch()
    wait_until((folder / sign).exists, "the function is in trouble")
    ended = ended_in_time(process, number)
    assert ended.code == 0, ended.err
    assert "headrace run p.yaml --resume" in ended.err
    assert "no last checkpoint could be taken in time" in ended.err
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")

    (folder / trouble).unlink()
    open_gate(folder)
    again = headrace(["run", "p.yaml", "--resume"], folder)
    assert again.code == 0, again.err
    assert rows(folder / "out") == expected


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    (folder / "trouble.py").write_text(TROUBLE)
    (folder / "p.yaml").write_text((folder / "p.yaml").read_text().replace("gate:held", "trouble:held"))
    (folder / "hang").touch()
    process = start(["run", "p.yaml"], folder)
    wait_until((folder / "hanging").exists, "the function hangs")
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    while "stopping" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 128 + signal.SIGTERM
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")


def test_a_run_in_threads_leaves_a_function_that_hangs(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    (folder / "trouble.py").write_text(TROUBLE)
    (folder / "p.yaml").write_text((folder / "p.yaml").read_text().replace("gate:held", "trouble:held"))
    (folder / "hang").touch()
    process = start(["run", "p.yaml", "--threads"], folder)
    wait_until((folder / "hanging").exists, "the function hangs")
    ended = ended_in_time(process, signal.SIGTERM)
    assert ended.code == 128 + signal.SIGTERM
    assert "did not return" in ended.err


CLOSING = """
name: closing
sources:
  made:
    generator: {rate: 20, columns: {id: {sequence: {start: 1}}}}
    schema: {id: int64}
sinks:
  shown: {from: made, print: {}}
  out: {from: made, waiting: {wait_ms: 0, close_s: 3600}}
"""


def test_a_run_in_threads_leaves_a_client_whose_close_does_not_return(tmp_path: Path) -> None:
    """The thread that handles signals closes it."""
    (tmp_path / "closing.yaml").write_text(CLOSING)
    path = ":".join(map(str, third_party_path(tmp_path / "site")))
    process = start_with(os.environ | {"PYTHONPATH": path}, ["run", "closing.yaml", "--threads"], tmp_path)
    assert process.stdout is not None and process.stdout.readline()
    ended = ended_in_time(process, signal.SIGINT)
    assert ended.code == 128 + signal.SIGINT
    assert "did not return" in ended.err


KAFKA = """
name: sent
checkpoint: {{interval: 200ms}}
batch: {{max_rows: 20}}
sources:
  made:
    generator: {{rows: 8000, columns: {{id: {{sequence: {{start: 1}}}}}}}}
    schema: {{id: int64}}
steps:
  held: {{from: made, map: {{function: "gate:held", schema: {{id: int64}}}}}}
sinks:
  out:
    from: held
    kafka: {{brokers: "{brokers}", topic: {topic}, delivery: exactly-once}}
    format: json
"""


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """A path that leads to itself can neither be read nor made."""
    kept = folder.rename(folder.with_name("kept"))
    folder.symlink_to(folder)
    try:
        yield
    finally:
        folder.unlink()
        kept.rename(folder)


@pytest.mark.broker
@pytest.mark.parametrize("what", ["broker", pytest.param("storage", marks=pytest.mark.full)])
def test_it_ends_without_its_broker_or_its_storage(what: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    with running_broker(tmp_path / "broker", settings=BROKER_SESSION) as broker:
        topic = create_topic(broker, unique_topic("sent"), 2)
        (folder / "p.yaml").write_text(KAFKA.format(brokers=broker.bootstrap, topic=topic))
        process = start(["run", "p.yaml"], folder)
        wait_checkpoint_after(0, folder / "home")
        assert broker.pid is not None
        trouble: AbstractContextManager[None] = (
            frozen(broker.pid) if what == "broker" else away(folder / "home" / "checkpoints")
        )
        with trouble:
            ended = ended_in_time(process, signal.SIGTERM)
        assert "headrace run p.yaml --resume" in ended.err
        wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")

        open_gate(folder)
        again = headrace(["run", "p.yaml", "--resume"], folder)
        assert again.code == 0, again.err
        ids = [json.loads(each.value or b"")["id"] for each in consume_all(broker, topic)]
    assert sorted(ids) == list(range(1, 8_001))
