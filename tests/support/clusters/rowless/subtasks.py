"""The subtasks of a slot without rows: what they report and what their snapshots hold."""

from __future__ import annotations

from headrace.checkpoint.manifest import SubtaskDocument
from headrace.core.signals import TIME_MIN
from headrace.core.source_state import SourceState, SplitState
from headrace.plan.physical import PhysicalPlan, SourceSpec, Task
from headrace.rpc.deployment import Deployment
from headrace.rpc.status import SlotStatus, SourceSubtaskStatus, SubtaskStatus
from headrace.worker.control import Assign
from headrace.worker.slot.deployed_plan import deployed_plan


class Plans:
    """Plans by hash. Each is planned once: the slots of a cluster plan on other hosts, and here in one process."""

    def __init__(self) -> None:
        self._known: dict[str, PhysicalPlan] = {}

    def of(self, deployment: Deployment) -> PhysicalPlan:
        """The plan of a deployment. Raises as `deployed_plan`."""
        plan = self._known.get(deployment.plan_hash)
        if plan is None:
            plan = self._known[deployment.plan_hash] = deployed_plan(deployment)
        return plan


class IdleSubtasks:
    """Those of one slice: they have read nothing but the splits that were assigned to them."""

    def __init__(self, plan: PhysicalPlan, index: int) -> None:
        self._index = index
        self._tasks = tuple(task for task in plan.tasks if task.parallelism > index)
        self._splits: dict[str, list[SplitState]] = {
            source: [] for task in self._tasks if (source := _source_of(task)) is not None
        }

    @property
    def tasks(self) -> tuple[str, ...]:
        """Their tasks' names."""
        return tuple(task.name for task in self._tasks)

    def assign(self, source: str, command: Assign) -> None:
        """Splits for a source."""
        for each in command.splits:
            split = each.split
            fresh = SplitState(split.id.topic, split.id.partition, split.start)
            self._splits[source].append(each.state or fresh)

    def document(self, number: int) -> SubtaskDocument:
        """The snapshot of the subtask of the task with that number."""
        task = self._tasks[number]
        source = _source_of(task)
        sources = {} if source is None else {source: SourceState(tuple(sorted(self._splits[source], key=_place)))}
        return SubtaskDocument(task=task.name, subtask=self._index, sources=sources, counters=_counters(task))

    def status(self, ended: frozenset[str]) -> SlotStatus:
        """The status report."""
        return SlotStatus(
            counters={node: own for task in self._tasks for node, own in _counters(task).items()},
            subtasks=tuple(
                SubtaskStatus(task=task.name, subtask=self._index, ended=task.name in ended) for task in self._tasks
            ),
            sources=tuple(self._source_status(source) for source in self._splits),
        )

    def _source_status(self, source: str) -> SourceSubtaskStatus:
        return SourceSubtaskStatus(
            source=source,
            subtask=self._index,
            active_height=TIME_MIN if self._splits[source] else None,
            has_splits=bool(self._splits[source]),
            watermark=TIME_MIN,
            lag=0,
        )


def _source_of(task: Task) -> str | None:
    return next((node.node for node in task.nodes if isinstance(node, SourceSpec)), None)


def _counters(task: Task) -> dict[str, dict[str, int]]:
    return {node.node: {"rows_in": 0, "rows_out": 0} for node in task.nodes}


def _place(split: SplitState) -> tuple[str, int]:
    return split.topic, split.partition
