"""Judges facts about this host, its home, checkpoint storage and the cluster: findings with a remedy. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.connect.access import Finding, Status
from headrace.core.text.plural import plural

FREE_BYTES_MIN = 1_000_000_000
"""A home with less free space may fail to keep state."""
CLOCK_TOLERANCE_S = 2.0
"""Clocks of two hosts may differ by this much: more than HTTP's whole seconds, and than a network's delay."""


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """The home's folder. failure: why it cannot be written; None: it can. unfinished: runs that kept state, and
    stand still."""

    path: str
    failure: str | None
    free_bytes: int
    unfinished: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """Checkpoint storage. failure: the step that failed, and why; replaces: a second put-if-absent of the same name
    did write."""

    url: str
    failure: str | None = None
    remedy: str | None = None
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class CoordinatorFacts:
    """A coordinator that has answered. offset_s: its clock minus this host's; None: not known; uncertainty_s: of it."""

    url: str
    version: str
    own_version: str
    offset_s: float | None = None
    uncertainty_s: float = 0.0


def versions(headrace: str, python: str) -> Finding:
    """Of this installation."""
    return Finding("headrace", Status.OK, f"{headrace}, Python {python}")


def java(version: str | None, failure: str, remedy: str | None) -> Finding:
    """Of the Java that was found; None: there is none, which `failure` explains."""
    if version is None:
        return Finding(
            "java", Status.WARNING, f"{failure}; `headrace kafka up`, Spark and YARN need it, nothing else does", remedy
        )
    return Finding("java", Status.OK, version)


def extras(installed: Mapping[str, bool]) -> Finding:
    """Extra -> whether all its packages are installed. None of them is needed unless it is used."""
    have = [name for name, there in installed.items() if there]
    lack = [name for name, there in installed.items() if not there]
    text = f"installed: {', '.join(have) or 'none'}"
    if lack:
        text += f"; not installed: {', '.join(lack)} (pip install 'headrace[NAME]')"
    return Finding("extras", Status.OK, text)


def kernels(failure: str | None, *, switched_on: bool) -> Finding:
    """Of the compiled kernels. failure: why they cannot be loaded."""
    if not switched_on:
        return Finding(
            "kernels", Status.WARNING, "HEADRACE_KERNELS is off: same results, slower", "leave the variable out"
        )
    if failure is not None:
        return Finding(
            "kernels",
            Status.WARNING,
            f"{failure}: same results, slower",
            "a C compiler and a new installation bring them",
        )
    return Finding("kernels", Status.OK, "compiled, and loaded")


def home(facts: HomeFacts) -> tuple[Finding, ...]:
    """Of the home's folder, and of runs that were left in it."""
    check = f"home {facts.path}"
    if facts.failure is not None:
        return (
            Finding(
                check,
                Status.FAILED,
                f"it cannot be written: {facts.failure}",
                "give this user the folder, or set HEADRACE_HOME to another one",
            ),
        )
    free = f"{facts.free_bytes / 1e9:,.1f} GB free"
    if facts.free_bytes < FREE_BYTES_MIN:
        space = Finding(check, Status.WARNING, f"only {free}", "make room, or set HEADRACE_HOME to another disk")
    else:
        space = Finding(check, Status.OK, f"can be written, {free}")
    return space, _runs(facts.unfinished)


def _runs(unfinished: Sequence[str]) -> Finding:
    if not unfinished:
        return Finding("runs", Status.OK, "none was left unfinished")
    count = plural(len(unfinished), "run")
    return Finding(
        "runs",
        Status.WARNING,
        f"{count} kept state and can be resumed: {', '.join(unfinished[:5])}{', ..' if len(unfinished) > 5 else ''}",
        "headrace runs list shows them, headrace runs delete removes what is not needed",
    )


def storage(facts: StorageFacts) -> Finding:
    """Of checkpoint storage, after one small object was written, read and deleted."""
    check = f"storage {facts.url}"
    if facts.failure is not None:
        return Finding(check, Status.FAILED, facts.failure, facts.remedy)
    if facts.replaces:
        return Finding(
            check,
            Status.FAILED,
            "put-if-absent has replaced an object: two coordinators could both decide",
            "use storage with a conditional put: a local folder, S3 with If-None-Match, HDFS",
        )
    return Finding(check, Status.OK, "write, read, put-if-absent and delete work")


def coordinator(facts: CoordinatorFacts) -> tuple[Finding, ...]:
    """Of a coordinator's version, and of the distance between its clock and this host's."""
    check = f"coordinator {facts.url}"
    if facts.version == facts.own_version:
        version = Finding(check, Status.OK, f"version {facts.version}, as this client")
    else:
        version = Finding(
            check,
            Status.WARNING,
            f"version {facts.version}, and this client has {facts.own_version}",
            "install the coordinator's version here, or upgrade the cluster",
        )
    return version, _clock(facts)


def _clock(facts: CoordinatorFacts) -> Finding:
    check = f"clock of {facts.url}"
    if facts.offset_s is None:
        return Finding(check, Status.UNCHECKED, "its answers have no Date")
    shown = f"{abs(facts.offset_s):.1f} s {'ahead of' if facts.offset_s > 0 else 'behind'} this machine"
    if abs(facts.offset_s) > CLOCK_TOLERANCE_S + facts.uncertainty_s:
        return Finding(check, Status.WARNING, f"it is {shown}", "let NTP keep the clocks of both machines")
    return Finding(check, Status.OK, f"as this machine's, within {CLOCK_TOLERANCE_S + facts.uncertainty_s:.1f} s")
