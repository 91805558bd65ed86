"""The planner of each verb. A new verb is a line here, and one in `spec.verbs.table`.

Every verb accepts appended rows. Updating rows (they replace earlier ones by key) pass filters, and selections, drops
and renames that keep the key. Every other verb rejects them, because it would process a row and its replacement as two.
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
    return PLANNERS[type(node.verb)](node.verb, step)
