"""The planner of each verb. A new verb is a line here, and one in `spec.verbs.table`.

Every verb accepts appended rows. Updating rows (they replace earlier ones by key) reach only verbs with
`TAKES_UPDATES`: any other one would process a row and its replacement as two.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.nodes import LogicalNode
from headrace.plan.problems import Problems
from headrace.plan.stream import Stream
from headrace.plan.verbs.aggregate import AGGREGATE
from headrace.plan.verbs.drop import DROP
from headrace.plan.verbs.explode import EXPLODE
from headrace.plan.verbs.filter import FILTER
from headrace.plan.verbs.map import MAP
from headrace.plan.verbs.project import SELECT, WITH_COLUMNS
from headrace.plan.verbs.rename import RENAME
from headrace.plan.verbs.step import Planner, Step
from headrace.plan.verbs.union import UNION
from headrace.spec.pipeline import Pipeline, StepNode
from headrace.spec.verbs.table import VERBS
from headrace.spec.verbs.verb import Verb

PLANNERS: dict[type[Verb], Planner] = dict(
    (FILTER, SELECT, WITH_COLUMNS, DROP, RENAME, EXPLODE, UNION, MAP, AGGREGATE),
)
"""Model of a verb -> its planner."""


def plan_step(
    name: str, node: StepNode, inputs: Sequence[Stream], pipeline: Pipeline, problems: Problems
) -> LogicalNode:
    """The logical node of a step. Raises UnknownInputError after recording its problems."""
    step = Step(name, node, inputs, pipeline=pipeline, problems=problems)
    if not node.verb.TAKES_UPDATES:
        _refuse_updates(step)
    return PLANNERS[type(node.verb)](node.verb, step)


def _refuse_updates(step: Step) -> None:
    """Rejects updating rows in any input."""
    verb = type(step.node.verb)
    takers = ", ".join(name for name, model in VERBS.items() if model.TAKES_UPDATES)
    with step.problems.every() as check:
        for index, (name, stream) in enumerate(zip(step.node.inputs, step.inputs, strict=True)):
            if stream.update_key is None:
                continue
            with check():
                raise step.refuse(
                    (verb.NAME, str(index)) if verb.NAMES_INPUTS else (verb.NAME,),
                    f"the rows of {name} update each other by ({', '.join(stream.update_key)}), "
                    f"and {verb.NAME} would take a row and its replacement for two",
                    f"read updating rows with {takers}, or a sink in upsert mode",
                )
