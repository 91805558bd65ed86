from __future__ import annotations

from pathlib import Path

import pytest

from headrace.processes.ports import is_free
from support.processes.running import wait_until
from support.suite.inner_run import inner_run

PLUGINS = ("scheduling", "shared_broker", "traces")
pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

USES = """
import os
from pathlib import Path
from support.kafka.broker import create_topic, unique_topic

def test_{name}(broker):
    create_topic(broker, unique_topic())
    Path("{name}.port").write_text(str(broker.port))
    {then}
"""


@pytest.mark.full  # every commit has one broker for three processes
def test_all_processes_have_the_same_broker_which_outlives_them_and_ends_with_the_run(tmp_path: Path) -> None:
    crashes = USES.format(name="a", then="os._exit(1)") + USES.format(name="after", then="")
    files = {"test_a.py": crashes, "test_b.py": USES.format(name="b", then="")}
    code, output = inner_run(tmp_path, files, "-n", "2", "--dist", "loadfile", plugins=PLUGINS)
    assert code == 1, output
    assert "1 failed, 2 passed" in output
    (port,) = {int((tmp_path / f"{name}.port").read_text()) for name in ("a", "after", "b")}
    wait_until(lambda: is_free(port), "nobody listens there any more")


def test_it_ends_with_a_run_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the test itself, whose process is the controller. The broker's files stay."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code, _ = inner_run(tmp_path, {"test_a.py": USES.format(name="a", then="os.kill(os.getpid(), 9)")}, plugins=PLUGINS)
    assert code == -9
    port = int((tmp_path / "a.port").read_text())
    wait_until(lambda: is_free(port), "nobody listens there any more")
