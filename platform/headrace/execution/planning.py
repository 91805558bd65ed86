"""A job's plans, one for each parallelism it runs with, and their facts for its machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from headrace.core.step_definition import StepDefinition
from headrace.core.text.concealment import Concealment
from headrace.execution.plan_facts import PlanFacts
from headrace.plan.chaining import plan_physical
from headrace.plan.contexts import sink_context
from headrace.plan.explain import plan_dict
from headrace.plan.logical import plan_logical
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec, StepSpec, Task, TaskNode
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import hidden_in, pipeline_from_dict


class JobPlans:
    """Plans of one pipeline, cached by parallelism."""

    def __init__(self, pipeline: Mapping[str, Any]) -> None:
        self._pipeline = dict(pipeline)
        self._concealment = Concealment(hidden_in(pipeline))
        self._models: dict[int, Pipeline] = {}
        self._plans: dict[int, PhysicalPlan] = {}
        self._facts: dict[int, PlanFacts] = {}

    def file_form(self, parallelism: int) -> dict[str, Any]:
        """Returns the pipeline at a parallelism (nodes that set their own keep it). Contains secrets."""
        return {**self._pipeline, "parallelism": parallelism}

    @property
    def concealment(self) -> Concealment:
        """Hides the values of the pipeline's variables in the job's texts."""
        return self._concealment

    def model(self, parallelism: int) -> Pipeline:
        """Returns the same as a model. Raises InvalidPipelineError."""
        if parallelism not in self._models:
            self._models[parallelism] = pipeline_from_dict(self.file_form(parallelism))
        return self._models[parallelism]

    def plan(self, parallelism: int) -> PhysicalPlan:
        """Returns the physical plan. Raises InvalidPipelineError."""
        if parallelism not in self._plans:
            model = self.model(parallelism)
            self._plans[parallelism] = plan_physical(plan_logical(model), model)
        return self._plans[parallelism]

    def facts(self, parallelism: int) -> PlanFacts:
        """Returns the plan's facts. Raises InvalidPipelineError."""
        if parallelism not in self._facts:
            facts = plan_facts(self.plan(parallelism))
            # checkpoints and savepoints must not contain values of variables
            shown = {node: each for node, each in facts.definitions.items() if not self._hides(each)}
            self._facts[parallelism] = replace(facts, definitions=shown)
        return self._facts[parallelism]

    def _hides(self, definition: StepDefinition) -> bool:
        return any(self._concealment.text(text) != text for text in definition.aggregates.values())

    def names(self, job: str, parallelism: int, attempt: int) -> dict[str, tuple[str, ...]]:
        """Returns sink -> the transaction names of an attempt; sinks without any are left out."""
        plan = self.plan(parallelism)
        names: dict[str, tuple[str, ...]] = {}
        for task, sink in plan_sinks(plan):
            for subtask in range(task.parallelism):
                told = sink_context(
                    sink, job, subtask, parallelism=task.parallelism, terms=plan.checkpoint, attempt=attempt
                )
                if own := sink.config.transactions(told):
                    names[sink.node] = (*names.get(sink.node, ()), *own)
        return names


def plan_pipeline(pipeline: Mapping[str, Any]) -> PhysicalPlan:
    """The physical plan of a pipeline in its file form. Raises InvalidPipelineError."""
    model = pipeline_from_dict(dict(pipeline))
    return plan_physical(plan_logical(model), model)


def plan_sinks(plan: PhysicalPlan) -> Iterator[tuple[Task, SinkSpec]]:
    """Returns every sink, with its task."""
    return ((task, node) for task in plan.tasks for node in task.nodes if isinstance(node, SinkSpec))


def plan_facts(plan: PhysicalPlan) -> PlanFacts:
    """Returns the control facts of a plan."""
    sources = {
        node.node: (task.parallelism, node)
        for task in plan.tasks
        for node in task.nodes
        if isinstance(node, SourceSpec)
    }
    return PlanFacts(
        plan_hash=plan_dict(plan)["hash"],
        slots=max(task.parallelism for task in plan.tasks),
        max_parallelism=plan.max_parallelism,
        sources={name: parallelism for name, (parallelism, _) in sources.items()},
        nodes={node.node: written_kind(node) for task in plan.tasks for node in task.nodes},
        parallelism={node.node: task.parallelism for task in plan.tasks for node in task.nodes},
        timed=frozenset(name for name, (_, spec) in sources.items() if spec.time is not None),
        idle=frozenset(
            name for name, (_, spec) in sources.items() if spec.time is not None and spec.time.idle_after_ms is not None
        ),
        drift={
            name: spec.time.max_drift_ms
            for name, (_, spec) in sources.items()
            if spec.time is not None and spec.time.max_drift_ms is not None
        },
        meetings=tuple(plan.windowed().values()),
        commit_within_ms=min(
            (within for _, sink in plan_sinks(plan) if (within := sink.config.commit_within_ms) is not None),
            default=None,
        ),
        definitions=plan.definitions,
    )


def node_kind(node: TaskNode) -> str:
    """Returns a node's kind: `source`, the verb of a step, `sink`."""
    match node:
        case SourceSpec():
            return "source"
        case StepSpec():
            return node.verb
        case SinkSpec():
            return "sink"


def written_kind(node: TaskNode) -> str:
    """Returns the kind as in a manifest: with the connector, because positions of one connector mean nothing to
    another.
    """
    return node_kind(node) if isinstance(node, StepSpec) else f"{node_kind(node)} {node.connector}"
