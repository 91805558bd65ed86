"""Measures how long a job takes from its submission to RUNNING, in the three modes, on a cluster of YARN.

usage: python -m yarn_starts.run --ledger URL [--rounds N] [--without flink]

HADOOP_CONF_DIR names the cluster, whose nodes run this interpreter at this path. Rounds of Headrace and of Flink take
turns. Everything that they start is stopped.

    session      `cluster start` until it returns
    submit       `submit` to that session until the job is RUNNING; its worker's container is requested by then
    per-job      `submit --mode per-job` until its job is RUNNING
    application  `submit --mode application` until the job of the program is RUNNING
    flink        `flink run -t yarn-application` until all tasks of its job run
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from measuring.flink_build import built, find_tools

from headrace.core.errors import HeadraceError
from yarn_starts.flink_application import FlinkApplication
from yarn_starts.headrace_starts import Place, described, measured

ROUNDS = 3
FLINK = Path(__file__).parent / "flink"


def main() -> int:
    """Prints the median of each part, and the values of all rounds. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ledger", required=True, help="URL of a folder that all nodes reach, which is filled")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--without", choices=["flink"], help="only Headrace: no Maven and no JDK are needed")
    given = parser.parse_args()
    try:
        rounds = _rounds(given.ledger.rstrip("/"), given.rounds, with_flink=given.without is None)
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1
    for name in rounds[0]:
        values = [each[name] for each in rounds]
        shown = " ".join(f"{value:.1f}" for value in values)
        print(f"{name:12} {statistics.median(values):6.1f} s    ({shown})")
    return 0


def _rounds(ledger: str, rounds: int, *, with_flink: bool) -> list[dict[str, float]]:
    build = built(find_tools(), FLINK) if with_flink else None
    seconds = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        place = Place(Path(folder), {**os.environ, "HEADRACE_HOME": f"{folder}/home"})
        flink = None if build is None else FlinkApplication(build, Path(folder, "flink"), os.environ)
        for number in range(rounds):
            # a ledger of its own: the key of the one before is deleted with its cluster
            described(place, f"{ledger}/round-{number}")
            seconds.append(measured(place))
            if flink is not None:
                seconds[-1]["flink"] = flink.measured()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
