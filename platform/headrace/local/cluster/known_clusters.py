"""The clusters that a home knows: its session cluster, those of one job or application, and those on YARN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.client.discovery import own_clusters
from headrace.client.yarn_clusters import APPLICATION, yarn_clusters
from headrace.core.settings import Home
from headrace.local.cluster.lifecycle import status

State = Literal["answers", "does not answer", "on YARN"]
"""A cluster on YARN is not asked: only its ResourceManager knows whether it runs."""


@dataclass(frozen=True, slots=True)
class KnownCluster:
    """One cluster. url: for --coordinator."""

    name: str
    kind: Literal["session", "one job", "yarn"]
    state: State
    jobs_running: int
    url: str


def known_clusters(home: Home) -> tuple[KnownCluster, ...]:
    """Returns the clusters of a home, its session cluster first. A cluster of one job that has ended has no record."""
    found = [_of(home, "session", "session")]
    found += [_of(Home(folder), folder.name, "one job") for folder in sorted(own_clusters(home).glob("*"))]
    on_yarn = (record.parent.name for record in sorted(yarn_clusters(home).glob(f"*/{APPLICATION}")))
    found += [KnownCluster(name, "yarn", "on YARN", 0, f"yarn://{name}") for name in on_yarn]
    return tuple(each for each in found if each is not None)


def _of(home: Home, name: str, kind: Literal["session", "one job"]) -> KnownCluster | None:
    seen = status(home)
    if seen.record is None:
        return None
    state: State = "answers" if seen.answering else "does not answer"
    return KnownCluster(name, kind, state, seen.jobs_running, seen.record.url)
