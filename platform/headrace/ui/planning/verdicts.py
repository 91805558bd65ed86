"""What a pipeline would do with the state of a job's last checkpoint, node by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from headrace.local.engine.compile import Compiled


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The verdict on one node."""

    node: str
    verdict: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """url: of the checkpoint; unread: why only the coordinator can judge; unusable, loses: whether state cannot be
    used at all, or would be lost."""

    url: str
    lines: tuple[VerdictLine, ...] = ()
    unread: str | None = None
    unusable: bool = False
    loses: bool = False


def verdicts_on(compiled: Compiled, path: str) -> Verdicts:
    """Judges a checkpoint or savepoint, which is read from this host."""
    from headrace.checkpoint.savepoints.savepoint import find
    from headrace.checkpoint.savepoints.verdict import Verdict, judge, loses_state

    try:
        found = find(path)
    except (UserError, ExternalError) as error:
        return Verdicts(path, unread=error.message)
    judged = judge(found.manifest, compiled.physical, {})
    return Verdicts(
        found.url,
        lines=tuple(VerdictLine(each.node, str(each.verdict), each.text) for each in judged),
        unusable=any(each.verdict is Verdict.INCOMPATIBLE for each in judged),
        loses=loses_state(judged),
    )
