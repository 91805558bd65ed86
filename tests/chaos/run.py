"""Runs one seed: `python -m chaos.run --seed 1 --faults 30`. A seed that fails tells its story and how to run it again.

The same seed has the same plan; when each fault meets the job differs a little from run to run, as on any real cluster.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

from chaos.peace import end, restore_and_check
from chaos.plan import Round, faults_in, plan_of
from chaos.story import Story
from chaos.strikes import Strikes
from headrace_dev.broker import BrokerConfig, EmbeddedBroker
from support.clusters.kafka_flow import running_flow
from support.clusters.session import Cluster, running_cluster
from support.clusters.standbys import standby_cluster
from support.patience import BROKER_SESSION, SHORT_CLUSTER_LEASES, SHORT_STANDBY_LEASES


def play(
    seed: int, faults: int, *, folder: Path, broker: EmbeddedBroker, standbys: int = 0, aloud: bool = False
) -> Story:
    """The seed's plan on a cluster of its own in `folder`. What fails has the story as its note."""
    story = Story(aloud=aloud)
    try:
        _play(plan_of(seed, faults, standbys=standbys > 0), _cluster(folder, standbys), broker, story)
    except BaseException as error:
        if not aloud:
            error.add_note("\n".join(story.lines))
        error.add_note(f"again: make chaos SEED={seed} FAULTS={faults} STANDBYS={standbys}")
        raise
    return story


def _cluster(folder: Path, standbys: int) -> AbstractContextManager[Cluster]:
    if not standbys:
        return running_cluster(folder, times=SHORT_CLUSTER_LEASES)
    election = f"file://{folder}/shared"
    return standby_cluster(folder, election, coordinators=standbys + 1, times=SHORT_STANDBY_LEASES)


def _play(
    rounds: tuple[Round, ...], starting: AbstractContextManager[Cluster], broker: EmbeddedBroker, story: Story
) -> None:
    story.tell(f"{faults_in(rounds)} faults in {len(rounds)} rounds")
    with starting as cluster, running_flow(cluster, broker, exactly_once=True) as flow:
        flow.submit()
        restore_and_check(flow, broker, story)
        strikes = Strikes(flow, broker, story)
        for number, round_ in enumerate(rounds, start=1):
            story.tell(f"round {number}")
            for at, step in enumerate(round_):
                strikes.step(step, first=at == 0)
            restore_and_check(flow, broker, story)
        end(flow, broker, story)
    story.tell("nothing is left behind")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which plan")
    parser.add_argument("--faults", type=int, default=30, help="how many")
    parser.add_argument("--standbys", type=int, default=0, help="coordinators beside the one that leads")
    wanted = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    begun = time.monotonic()
    # who ends it early, also in the background, ends the cluster and the broker with it
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        # it is halted, never killed
        with EmbeddedBroker(BrokerConfig(folder / "kafka", short_lived=True, settings=BROKER_SESSION)) as broker:
            play(wanted.seed, wanted.faults, folder=folder / "c", broker=broker, standbys=wanted.standbys, aloud=True)
    except BaseException:
        sys.stdout.write(f"seed {wanted.seed} FAILS; its logs and journals are in {folder}\n")
        raise
    shutil.rmtree(folder)
    sys.stdout.write(f"seed {wanted.seed} is exact: {wanted.faults} faults, {time.monotonic() - begun:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
