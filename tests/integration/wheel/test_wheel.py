"""The built wheel, alone with what it says it depends on in a clean environment, runs a pipeline on files.

Nothing is fetched: what it depends on is here already, and is linked into that environment, and nothing besides.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

import headrace
from support.distributions.required import required_names
from support.processes.running import RUN_TIMES, WAIT_SECONDS, wait_until
from support.repository import ROOT

PIPELINE = """\
name: orders-per-minute
sources:
  orders:
    files: {path: orders/*.json}
    format: json
    schema:
      shop: string not null
      amount: float64
      at: timestamp
    time:
      column: at
      out_of_orderness: 10s
steps:
  minutes:
    from: orders
    key_by: [shop]
    window: {tumbling: 1m}
    aggregate:
      orders: count(*)
      total: sum(amount)
sinks:
  totals:
    from: minutes
    files: {path: totals}
    format: json
"""
ORDERS = [
    ("a", 0.1, "2024-05-01T10:00:05Z"),
    ("b", 1.0, "2024-05-01T10:00:20Z"),
    ("a", 0.2, "2024-05-01T10:00:59Z"),
    ("a", 0.3, "2024-05-01T10:00:55Z"),
    ("a", 5.0, "2024-05-01T10:01:30Z"),
    ("b", 9.0, "2024-05-01T10:00:40Z"),
]
"""The last one comes after its partition's watermark has passed the end of its window."""


def _row(shop: str, minute: int, orders: int, total: float) -> dict[str, object]:
    start, end = (f"2024-05-01T10:{at:02}:00.000Z" for at in (minute, minute + 1))
    return {"shop": shop, "window_start": start, "window_end": end, "orders": orders, "total": total}


TOTALS = [_row("a", 0, 3, 0.6), _row("a", 1, 1, 5.0), _row("b", 0, 1, 1.0)]


ENDLESS = """\
name: counting
sources:
  numbers:
    generator: {rate: 100, columns: {n: {sequence: {}}}}
    schema: {n: int64}
sinks:
  out: {from: numbers, files: {path: out}, format: json}
"""


def environment_of(folder: Path) -> dict[str, str]:
    """Outside of the repository and of this environment, with a home in the folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**inherited, **RUN_TIMES, "HEADRACE_HOME": str(folder / "home"), "NO_COLOR": "1"}


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; shows everything where it fails."""
    done = subprocess.run(command, cwd=cwd, env=environment_of(cwd), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this working tree."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a clean environment that has the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("clean")
    home = folder / "venv"
    # this environment's pip installs into the other one: a Python without ensurepip can do that too
    venv.create(home, symlinks=True, with_pip=False)
    programs = home / "bin"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", programs / "python")
    run(*pip, "install", "--quiet", "--no-compile", "--no-index", "--no-deps", wheel, cwd=folder)
    packages = _packages(programs)
    (installed,) = metadata.distributions(name="headrace", path=[str(packages)])
    for name in required_names(installed.requires or ()):
        _link(metadata.distribution(name), packages)
    run(*pip, "check", cwd=folder)
    return programs


@pytest.fixture(scope="module")
def installed_with_page(installed: Path) -> Path:
    """The same with the extra `ui`. Tests that use it come last."""
    packages = _packages(installed)
    (own,) = metadata.distributions(name="headrace", path=[str(packages)])
    needed = [Requirement(text) for text in own.requires or ()]
    of_page = [each for each in needed if each.marker is not None and each.marker.evaluate({"extra": "ui"})]
    assert of_page, "the wheel has the extra"
    for name in required_names(f"{each.name}{each.specifier}" for each in of_page):
        _link(metadata.distribution(name), packages)
    return installed


def _packages(programs: Path) -> Path:
    """The folder of packages of the environment whose programs these are."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(programs.parent)}))


def _link(distribution: metadata.Distribution, packages: Path) -> None:
    """Puts what is installed here into that folder, as links."""
    names = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
    for name in names:
        if not (packages / name).exists():
            (packages / name).symlink_to(str(distribution.locate_file(name)))


def test_the_wheel_holds_the_two_packages_and_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"headrace", "headrace_dev", "headrace_connectors", f"headrace-{headrace.__version__}.dist-info"}


def test_it_tells_its_version(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "headrace", "--version", cwd=tmp_path).stdout == f"headrace {headrace.__version__}\n"


def test_it_has_the_reference_and_the_pages(installed: Path, tmp_path: Path) -> None:
    for page in ("README", "concepts/event-time", "coming-from/flink", "errors"):
        shown = run(installed / "headrace", "docs", page, cwd=tmp_path).stdout
        assert shown == (ROOT / f"docs/{page}.md").read_text()
    assert "round(float, n) -> float64" in run(installed / "headrace", "functions", "round", cwd=tmp_path).stdout
    assert "brokers" in run(installed / "headrace", "connectors", "kafka", cwd=tmp_path).stdout
    assert "explode" in run(installed / "headrace", "steps", cwd=tmp_path).stdout


def test_it_makes_a_project_and_runs_its_tests(installed: Path, tmp_path: Path) -> None:
    run(installed / "headrace", "init", "rides", cwd=tmp_path)
    run(installed / "headrace", "test", "pipeline.yaml", cwd=tmp_path / "rides")


def test_it_runs_a_pipeline_on_files(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "orders").mkdir()
    lines = [json.dumps({"shop": shop, "amount": amount, "at": at}) for shop, amount, at in ORDERS]
    (tmp_path / "orders" / "one.json").write_text("\n".join(lines) + "\n")

    summary = json.loads(run(installed / "headrace", "run", "pipeline.yaml", "--json", cwd=tmp_path).stdout)

    assert {name: summary[name] for name in ("state", "rows_in", "rows_out", "late", "bad")} == {
        "state": "FINISHED",
        "rows_in": 6,
        "rows_out": 3,
        "late": 1,
        "bad": 0,
    }
    written = [line for part in (tmp_path / "totals").iterdir() for line in part.read_text().splitlines()]
    rows = [json.loads(line) for line in written]
    assert sorted(rows, key=lambda row: (row["shop"], row["window_start"])) == TOTALS


def test_it_serves_its_page(installed_with_page: Path, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(ENDLESS)
    command: list[str | Path] = [installed_with_page / "headrace", "run", "pipeline.yaml", "--ui"]
    log = tmp_path / "printed"
    with log.open("w") as err:
        running = subprocess.Popen(command, cwd=tmp_path, env=environment_of(tmp_path), stderr=err)
    try:
        wait_until(lambda: "page: http" in log.read_text() or running.poll() is not None, "the page is named")
        link = re.search(r"^page: (\S+)$", log.read_text(), re.MULTILINE)
        assert link, log.read_text()
        with httpx.Client(trust_env=False, follow_redirects=True, timeout=WAIT_SECONDS) as http:
            page = http.get(link[1], headers={"Accept": "text/html"})
        running.send_signal(signal.SIGINT)
        code = running.wait(WAIT_SECONDS)
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    assert code == 0, log.read_text()
    assert "<title>Jobs - Headrace</title>" in page.text
    # the style sheet is a file of the package
    assert ".panel" in page.text
