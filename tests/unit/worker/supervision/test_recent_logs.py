"""The newest lines of a worker: bounded, and without an effect on what Python prints by itself."""

from __future__ import annotations

import logging
import subprocess
import sys

from headrace.worker.supervision.recent_logs import LINE_CHARS_MAX, LINES_MAX, RecentLines, all_logs

LOG = logging.getLogger("headrace.worker.test")
UNCONFIGURED = """
import logging
from headrace.worker.supervision.recent_logs import RecentLines
lines = RecentLines()
lines.start()
logging.getLogger("headrace.coordinator").warning("is printed")
assert lines.text == ""
"""


def test_the_newest_lines_are_kept() -> None:
    lines = RecentLines()
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    try:
        lines.start()
        for number in range(LINES_MAX + 1):
            LOG.warning("line %d", number)
        LOG.warning("x" * 2 * LINE_CHARS_MAX)
        lines.stop()
        LOG.warning("not kept")
    finally:
        logging.getLogger().removeHandler(other)
    kept = lines.text.splitlines()
    assert len(kept) == LINES_MAX
    assert kept[0].endswith("WARNING line 2")
    assert len(kept[-1]) == LINE_CHARS_MAX and kept[-1].endswith("x")
    assert all_logs(lines, []).startswith("== worker, pid ")


def test_without_logging_python_prints_warnings_as_before() -> None:
    done = subprocess.run([sys.executable, "-c", UNCONFIGURED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "is printed\n")
