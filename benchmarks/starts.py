"""Measures start times of commands, a cluster, slots and small jobs, in two checkouts.

usage: starts.py CHECKOUT OTHER [--only NAME ..] [--pairs N]

Each checkout has a virtual environment of its own in `.venv`. Both run in turn, each in a home of its own under a
temporary folder; compiled modules are kept there, as users have them, and are written before anything is measured.

    help       `headrace --help`: CPU
    validate   `headrace validate` of a pipeline: CPU
    cluster    `headrace cluster start` until it returns: wall time
    slot       a new slot of a cluster, from its fork until it listens: wall time, and CPU of its process
    cli        a small job on a running cluster, `headrace submit --wait`: wall time
    rest       the same job by REST from this process, until it is FINISHED: wall time
    run        `headrace run` until its first row is printed: CPU of all its processes
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring.figures import Figure, alternating
from measuring.slot_run import processes

PAIRS, WAIT_S, LOOK_S = 5, 120.0, 0.002
GENERATOR = {"columns": {"n": {"sequence": {}}, "k": {"int": {"max": 99}}, "at": {"time": {"step": "10ms"}}}}
SOURCE = {
    "generator": GENERATOR,
    "schema": {"n": "int64", "k": "int64", "at": "timestamp"},
    "time": {"column": "at"},
}
_LISTENS = 0x10000
"""Flag of a Unix socket in /proc/net/unix (`__SO_ACCEPTCON`)."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout with its virtual environment, and a folder for the files of its processes."""

    path: Path
    folder: Path

    def popen(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Starts `headrace ..`."""
        own = {"HEADRACE_HOME": str(self.folder / "home"), "PYTHONPYCACHEPREFIX": str(self.folder / "compiled")}
        environment = os.environ | own
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [str(self.path / ".venv/bin/python"), "-m", "headrace", *arguments]
        return subprocess.Popen(command, env=environment, cwd=self.folder, **options)

    def run(self, *arguments: str) -> None:
        """Runs `headrace ..`, which must succeed."""
        process = self.popen(*arguments, stdout=subprocess.DEVNULL)
        assert process.wait(WAIT_S) == 0, f"headrace {' '.join(arguments)} ended with code {process.returncode}"

    @contextmanager
    def cluster(self) -> Iterator[tuple[str, str]]:
        """Starts a cluster of one worker with one ready slot; returns its address and token."""
        self.run("cluster", "start", "--workers", "1", "--slots", "1")
        try:
            url = json.loads((self.folder / "home/cluster/coordinator.json").read_text())["url"]
            file = self.folder / "home/cluster/token"
            # an earlier checkout has none
            token = file.read_text().strip() if file.exists() else ""
            _wait(lambda: _get(f"{url}/v1/cluster", token)["slots_free"] == 1)
            yield url, token
        finally:
            self.run("cluster", "stop")

    def worker(self) -> int:
        """The process id of the cluster's worker."""
        record = json.loads((self.folder / "home/cluster/cluster.json").read_text())
        return int(record["workers"][0]["pid"])


def small_job() -> dict[str, Any]:
    """A bounded job with state."""
    sums = {"from": "numbers", "key_by": ["k"], "window": {"tumbling": "10s"}, "aggregate": {"s": "sum(n)"}}
    return {
        "name": "small",
        "sources": {"numbers": SOURCE | {"generator": {**GENERATOR, "rows": 2_000}}},
        "steps": {"sums": sums},
        "sinks": {"out": {"from": "sums", "files": {"path": "out"}, "format": "json"}},
    }


def endless_job() -> dict[str, Any]:
    """Ten rows a second, printed."""
    return {
        "name": "endless",
        "sources": {"numbers": SOURCE | {"generator": {**GENERATOR, "rate": 10}}},
        "sinks": {"out": {"from": "numbers", "print": {}}},
    }


def _pipeline_file(checkout: Checkout, pipeline: dict[str, Any]) -> str:
    file = checkout.folder / f"{pipeline['name']}.yaml"
    file.write_text(json.dumps(pipeline))  # JSON is YAML
    return str(file)


# ---- measures, in ms ---------------------------------------------------------------------------------------------


def help_cpu(checkout: Checkout) -> float:
    return _cpu_of(lambda: checkout.run("--help"))


def validate_cpu(checkout: Checkout) -> float:
    file = _pipeline_file(checkout, small_job())
    return _cpu_of(lambda: checkout.run("validate", file))


def cluster_wall(checkout: Checkout) -> float:
    begun = time.perf_counter()
    checkout.run("cluster", "start", "--workers", "1", "--slots", "1")
    took = time.perf_counter() - begun
    checkout.run("cluster", "stop")
    return took * 1_000


def job_by_cli(checkout: Checkout) -> float:
    with checkout.cluster():
        begun = time.perf_counter()
        checkout.run("submit", _pipeline_file(checkout, small_job()), "--wait")
        return (time.perf_counter() - begun) * 1_000


def job_by_rest(checkout: Checkout) -> float:
    pipeline = small_job()
    pipeline["sinks"]["out"]["files"]["path"] = str(checkout.folder / "out")
    with checkout.cluster() as (url, token):
        begun = time.perf_counter()
        job = _get(f"{url}/v1/jobs", token, {"pipeline": pipeline})["job_id"]
        _wait(lambda: _get(f"{url}/v1/jobs/{job}", token)["state"] == "FINISHED")
        return (time.perf_counter() - begun) * 1_000


def slot_start(checkout: Checkout) -> tuple[float, float]:
    """Wall time and CPU of the slot that replaces a killed one."""
    with checkout.cluster():
        worker = checkout.worker()
        before = set(processes(worker))
        slots = [pid for pid in before if _listens(pid) and b"headrace-slot" in _command(pid)]
        assert len(slots) == 1, f"one slot process is expected, not {len(slots)}"
        os.kill(slots[0], signal.SIGKILL)
        seen: dict[int, float] = {}
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            now = time.perf_counter()
            for pid in set(processes(worker)) - before:
                begun = seen.setdefault(pid, now)
                if _listens(pid):
                    cpu_ns = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
                    return (time.perf_counter() - begun) * 1_000, _threads_cpu_ns(pid, cpu_ns) / 1e6
            time.sleep(LOOK_S)
    raise AssertionError("no slot came up")


def slot_wall(checkout: Checkout) -> float:
    return slot_start(checkout)[0]


def slot_cpu(checkout: Checkout) -> float:
    return slot_start(checkout)[1]


def run_cpu(checkout: Checkout) -> float:
    file = _pipeline_file(checkout, endless_job())
    process = checkout.popen("run", file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith(b"{"), "the first row is expected"
        return sum(processes(process.pid).values()) * 1_000
    finally:
        # a background job of a shell hands an ignored SIGINT on to all its children, but never an ignored SIGTERM
        process.terminate()
        process.communicate(timeout=WAIT_S)  # reads to the end: rows without a reader would fail the attempt


MEASURES: dict[str, tuple[tuple[str, Callable[[Checkout], float]], ...]] = {
    "help": (("--help, CPU", help_cpu),),
    "validate": (("validate, CPU", validate_cpu),),
    "cluster": (("cluster start, wall", cluster_wall),),
    "slot": (("slot, wall", slot_wall), ("slot, CPU", slot_cpu)),
    "cli": (("small job by submit --wait, wall", job_by_cli),),
    "rest": (("small job by REST, wall", job_by_rest),),
    "run": (("run until its first row, CPU of all processes", run_cpu),),
}


# ---- looking -----------------------------------------------------------------------------------------------------


def _cpu_of(action: Callable[[], None]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1_000


def _get(url: str, token: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, data, headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=WAIT_S) as answer:
        return json.load(answer)


def _wait(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(LOOK_S)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _listens(pid: int) -> bool:
    """Whether a process holds a Unix socket that others can connect to, as a slot does once it is ready."""
    try:
        held = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return False  # it has ended
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return any(len(row) > 7 and int(row[3], 16) & _LISTENS and f"socket:[{row[6]}]" in held for row in rows)


def _threads_cpu_ns(pid: int, main_ns: int) -> int:
    """CPU of all threads of a process; the main thread's where it has just ended."""
    try:
        tasks = [Path(each.path, "schedstat").read_text() for each in os.scandir(f"/proc/{pid}/task")]
    except OSError:
        return main_ns
    return sum(int(text.split()[0]) for text in tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--only", action="append", choices=MEASURES)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        here, other = (Checkout(path.resolve(), Path(folder, name)) for path, name in _named(options))
        for each in (here, other):
            each.folder.mkdir()
        for name in options.only or MEASURES:
            for checkout in (here, other):
                MEASURES[name][0][1](checkout)
            for title, measure in MEASURES[name]:
                values = (lambda measure=measure: measure(here), lambda measure=measure: measure(other))
                found.append(alternating(title, options.pairs, *values, unit="ms"))
    for figure in found:
        print(figure.text("other"))


def _named(options: argparse.Namespace) -> tuple[tuple[Path, str], ...]:
    return (options.checkout, "here"), (options.other, "other")


if __name__ == "__main__":
    main()
