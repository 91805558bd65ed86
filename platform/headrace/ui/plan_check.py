"""Checks a pipeline's text, plans it, and judges a job's state against the plan, in this process: mistakes have their
lines only here.

The text gets no variables of this process's environment: they may be secrets of another user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError, HeadraceError, InvalidPipelineError, Location, Problem, UserError
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.local.engine.compile import Compiled


FILE = "pipeline.yaml"
TEXT_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Mistake:
    """A problem of the text. line: from 1; None: it is of the whole, or of an override."""

    text: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Checked:
    """The result: mistakes, or a plan. inputs: node -> the nodes that it reads."""

    mistakes: tuple[Mistake, ...] = ()
    compiled: Compiled | None = None
    inputs: Mapping[str, Sequence[str]] | None = None

    @property
    def summary(self) -> str:
        """A summary of the plan, in one line."""
        if self.compiled is None or self.inputs is None:
            return plural(len(self.mistakes), "mistake")
        pipeline, tasks = self.compiled.pipeline, len(self.compiled.physical.tasks)
        return (
            f"No mistakes: {pipeline.name}, {plural(len(self.inputs), 'node')} in {plural(tasks, 'task')}, "
            f"parallelism {pipeline.parallelism}"
        )


def checked(text: str, overrides: str, parallelism: int | None, *, max_parallelism: int | None = None) -> Checked:
    """Checks and plans a text. overrides: `path=value`, one a line. Takes seconds at the first call, which imports the
    planner."""
    from headrace.local.engine.compile import compile_loaded
    from headrace.local.pipeline_file import Loaded
    from headrace.plan.every_problem import every_problem
    from headrace.spec.reading.load import PartlyReadError, load_text

    changes = [line.strip() for line in overrides.splitlines() if line.strip()]
    numbers = {"parallelism": parallelism, "max_parallelism": max_parallelism}
    changes += [f"{name}={number}" for name, number in numbers.items() if number is not None]
    try:
        try:
            loaded = load_text(text, FILE, set_=changes, environ={})
        except PartlyReadError as error:
            return Checked(mistakes=_mistakes(every_problem(error)))
        compiled = compile_loaded(Loaded(loaded.pipeline, loaded))
    except InvalidPipelineError as error:
        return Checked(mistakes=_mistakes(error))
    except HeadraceError as error:
        return Checked(mistakes=(Mistake(str(error), None),))
    return Checked(compiled=compiled, inputs=plan_inputs(compiled))


def plan_inputs(compiled: Compiled) -> dict[str, list[str]]:
    """The graph of a plan: node -> the nodes that it reads."""
    inputs: dict[str, list[str]] = {node.name: [] for node in compiled.logical.nodes}
    for node in compiled.logical.nodes:
        inputs[node.name] = list(dict.fromkeys(read.source for read in node.inputs))
    return inputs


def _mistakes(error: InvalidPipelineError) -> tuple[Mistake, ...]:
    return tuple(_mistake(problem) for problem in error.problems)


def _mistake(problem: Problem) -> Mistake:
    place = problem.location
    line = place.line if isinstance(place, Location) and place.file == FILE else None
    where = f"line {line}: " if line is not None else ""
    remedy = f"\n  {problem.remedy}" if problem.remedy else ""
    return Mistake(f"{where}{problem.message}{remedy}", line)


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The verdict on one node."""

    node: str
    verdict: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How a pipeline would use the state of a job's last checkpoint, node by node.

    url: of the checkpoint; unread: why only the coordinator can judge; unusable, loses: whether state cannot be
    used at all, or would be lost.
    """

    url: str
    lines: tuple[VerdictLine, ...] = ()
    unread: str | None = None
    unusable: bool = False
    loses: bool = False


def verdicts_on(compiled: Compiled, path: str, *, rehashes: bool = False) -> Verdicts:
    """Judges a checkpoint or savepoint, which is read from this host. rehashes: as of `judge`."""
    from headrace.checkpoint.savepoints.savepoint import find
    from headrace.checkpoint.savepoints.verdict import Verdict, judge, loses_state

    try:
        savepoint = find(path)
    except (UserError, ExternalError) as error:
        return Verdicts(path, unread=error.message)
    judged = judge(savepoint.manifest, compiled.physical, {}, rehashes=rehashes)
    return Verdicts(
        savepoint.url,
        lines=tuple(VerdictLine(each.node, str(each.verdict), each.text) for each in judged),
        unusable=any(each.verdict is Verdict.INCOMPATIBLE for each in judged),
        loses=loses_state(judged),
    )
