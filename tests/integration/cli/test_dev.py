"""`headrace dev` on a real broker: saved files, mistakes, modules, Ctrl-C, and a parent that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace_dev.broker import EmbeddedBroker
from support.clusters.local import processes_of
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

PIPELINE = """\
name: doubled
sources:
  numbers:
    kafka: {{brokers: "{brokers}", topic: {topic}, group: {topic}}}
    format: json
    schema: {{n: int64}}
    on_error: {{dead_letter: {topic}-dead}}
steps:
  more:
    from: numbers
    select: {{m: n * 2}}
sinks:
  out:
    from: more
    kafka: {{brokers: "{brokers}", topic: {out}}}
    format: json
"""

ON_DISK = """\
name: counted
state: {{backend: disk, memory: 32MiB, dir: {folder}}}
sources:
  numbers:
    generator: {{rows: 100, columns: {{n: {{sequence: {{}}}}}}}}
    schema: {{n: int64}}
steps:
  counted: {{from: numbers, aggregate: {{n: count(*)}}}}
sinks:
  out: {{from: counted, print: {{}}, format: json}}
"""


class Dev:
    """`headrace dev p.yaml`, with what it has printed so far."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.home = folder, folder / "home"
        self.out: list[str] = []
        self.process = subprocess.Popen(
            ["env", "--default-signal=INT,TERM,HUP", sys.executable, "-m", "headrace", "dev", "p.yaml", *options],
            cwd=folder,
            env=os.environ | {"HEADRACE_HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.out.extend(line.rstrip("\n") for line in self.process.stdout)

    def _printed(self) -> str:
        return "\n".join(self.out)

    def wait_for(self, text: str, times: int = 1) -> None:
        try:
            wait_until(lambda: self._printed().count(text) >= times or self.process.poll() is not None, text)
        finally:
            printed = self._printed()
        assert printed.count(text) >= times, printed

    def edit(self, before: str, after: str) -> None:
        file = self.folder / "p.yaml"
        text = file.read_text()
        assert before in text
        # as most editors do: a new file in place of the old one
        (self.folder / ".p.yaml.new").write_text(text.replace(before, after))
        (self.folder / ".p.yaml.new").replace(file)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(WAIT_SECONDS)
        self._reader.join()
        return code


@contextmanager
def developing(folder: Path, *options: str) -> Iterator[Dev]:
    dev = Dev(folder, *options)
    try:
        yield dev
    finally:
        dev.process.kill()
        dev.ended()
        assert dev.process.stdout is not None
        dev.process.stdout.close()


def written(folder: Path, broker: EmbeddedBroker, *messages: bytes) -> tuple[str, str]:
    """The pipeline in the folder; returns its topics."""
    topic, out = (create_topic(broker, unique_topic(name)) for name in ("numbers", "out"))
    produce(broker, topic, list(messages))
    (folder / "p.yaml").write_text(PIPELINE.format(brokers=broker.bootstrap, topic=topic, out=out))
    return topic, out


def test_a_saved_file_starts_anew_and_a_mistake_waits_for_the_next_save(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic, out = written(tmp_path, broker, b'{"n": 1}', b"rubbish", b'{"n": 2}')
    with developing(tmp_path) as dev:
        dev.wait_for('out  {"m":4}')
        dev.wait_for("numbers.bad  {")
        produce(broker, topic, [b'{"n": 7}'])
        dev.wait_for('out  {"m":14}')

        dev.edit("n * 2", "n * 3")
        dev.wait_for("--- p.yaml was saved: starts anew")
        dev.wait_for('out  {"m":21}')

        dev.edit("n * 3", "number * 3")
        dev.wait_for("p.yaml:11:17: ")
        dev.wait_for("waits for the next save")
        dev.edit("number * 3", "n * 5")
        dev.wait_for('out  {"m":35}')

        assert dev.end() == 0
        wait_until(lambda: processes_of(tmp_path / "home") == [], "no process is left of it")
        assert "Traceback" not in "\n".join(dev.out)
    assert consume_all(broker, out) == []
    assert not list((tmp_path / "home").rglob("*.json")), "no state and no record of a run"
    assert committed(broker, topic) < 0


def test_state_on_disk_is_on_disk_while_developing(tmp_path: Path) -> None:
    """A folder that cannot be used is a mistake like others; the next save goes on."""
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "p.yaml").write_text(ON_DISK.format(folder=tmp_path / "file"))
    with developing(tmp_path) as dev:
        dev.wait_for(f"local files of state cannot be written to {tmp_path / 'file'}")
        dev.edit(str(tmp_path / "file"), str(tmp_path / "folder"))
        dev.wait_for('out  {"n":100}')
        assert dev.end() == 0
    assert list((tmp_path / "folder").iterdir()) == []


def committed(broker: EmbeddedBroker, topic: str) -> int:
    """The offset that the group of the source has; negative: none."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    try:
        (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_SECONDS)
        return place.offset
    finally:
        consumer.close()


@pytest.mark.full
def test_a_module_beside_it_counts_and_sinks_are_written_if_asked(broker: EmbeddedBroker, tmp_path: Path) -> None:
    _, out = written(tmp_path, broker, b'{"n": 1}')
    text = (tmp_path / "p.yaml").read_text()
    mapped = 'map: {function: "steps:more", schema: {m: int64}}'
    (tmp_path / "p.yaml").write_text(text.replace("select: {m: n * 2}", mapped))
    module = "import polars as pl\n\ndef more(rows):\n    return rows.select(m=pl.col('n') + {plus})\n"
    (tmp_path / "steps.py").write_text(module.format(plus=10))
    with developing(tmp_path, "--write") as dev:
        dev.wait_for('out  {"m":11}')
        (tmp_path / "steps.py").write_text(module.format(plus=20))
        dev.wait_for("--- steps.py was saved: starts anew")
        dev.wait_for('out  {"m":21}')
        assert dev.end(signal.SIGTERM) == 0
    values = [json.loads(record.value or b"") for record in consume_all(broker, out)]
    assert values == [{"m": 11}, {"m": 21}]


@pytest.mark.full
def test_many_rows_are_counted_and_a_killed_parent_leaves_no_process(broker: EmbeddedBroker, tmp_path: Path) -> None:
    written(tmp_path, broker, *(b'{"n": %d}' % number for number in range(500)))
    with developing(tmp_path, "--rows", "3") as dev:
        dev.wait_for("out  .. and ")
        assert sum(line.startswith('out  {"m"') for line in dev.out) < 500
        dev.process.kill()
        wait_until(lambda: processes_of(tmp_path / "home") == [], "no process is left of it")


def test_a_file_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    with developing(tmp_path) as dev:
        assert dev.ended() == 2
        assert "p.yaml" in dev.out[0]
