"""Opens the live parts of one subtask from the plan: its chain, from the last node up, with the restored state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.connect.format import PreparedFormats
from headrace.connect.row_check import Refuse
from headrace.connect.sink import CheckpointTerms, Writer
from headrace.connect.source import Reader
from headrace.core.clock import Clock
from headrace.core.source_state import AppliedFloor
from headrace.exchange.outlet import Outlet
from headrace.exchange.output import EdgeOutput
from headrace.exchange.traffic import NodeBytes
from headrace.operators.chain import MAIN, Fan, Link, Receiver
from headrace.operators.operator import BAD, OpenedStep
from headrace.plan.contexts import sink_context, source_context
from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec, StepSpec, Task
from headrace.state.place import StatePlace
from headrace.state.snapshot import RestoredStates
from headrace.worker.lease import Lease
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.ingest import open_ingest
from headrace.worker.task.node_time import NodeTime, TimedReceiver
from headrace.worker.task.read_ahead import ReadAhead
from headrace.worker.task.refused_rows import RefusedRows
from headrace.worker.task.sink_task import SinkTask, open_key_encoder
from headrace.worker.task.source_progress import SourceProgress
from headrace.worker.task.source_task import SourceTask, SourceTiming
from headrace.worker.wiring import Wiring

Outgoing = Mapping[tuple[str, str], Sequence[Receiver]]
"""(node, output) -> the sending ends of the edges that leave the task there."""
FindOutlet = Callable[[str, int, int], Outlet]
"""(task, subtask, number of the channel in its mailbox) -> the outlet that leads there."""

Resume = Callable[[str, OpenedStep], bool]
"""(node, its operator) -> whether this call has restored the operator: then its share of the states is not."""
OpenSink = Callable[[SinkSpec, Counter[str], RefusedRows], Receiver]
"""(sink, its counters, where its refused rows go) -> the receiver of the sink's rows in place of a SinkTask."""


@dataclass(frozen=True, slots=True)
class SubtaskContext:
    """What the parts of a subtask need to open.

    counters   node name -> that subtask's counters
    traffic    node name -> the bytes that entered and left that subtask there
    times      node name -> the time that the subtask spends in it
    floors     recorded floors of an earlier run
    restored   node name -> this subtask's share of the node's states
    lease      nothing is written once the lease has expired; None: no lease
    hand_over  the end of the input closes no window
    terms      how often epochs are committed
    attempt    number of the job's attempt
    place      where the steps keep their rows
    formats    what formats have prepared
    """

    pipeline: str
    job: str
    subtask: int
    parallelism: int
    snapshots: SubtaskSnapshots
    clock: Clock
    timing: SourceTiming
    poll_rows_max: int
    floors: tuple[AppliedFloor, ...]
    counters: dict[str, Counter[str]]
    terms: CheckpointTerms
    attempt: int = 0
    traffic: dict[str, NodeBytes] = field(default_factory=dict)
    times: dict[str, NodeTime] = field(default_factory=dict)
    restored: Mapping[str, RestoredStates] = field(default_factory=dict)
    lease: Lease | None = None
    hand_over: bool = False
    place: StatePlace = field(default_factory=StatePlace)
    formats: PreparedFormats = field(default_factory=dict)


def outgoing(
    plan: PhysicalPlan,
    wiring: Wiring,
    task: str,
    subtask: int,
    find: FindOutlet,
    *,
    traffic: dict[str, NodeBytes] | None = None,
) -> Outgoing:
    """The sending ends of all edges that leave a subtask. `traffic` counts their bytes for the nodes that send."""
    counted = {} if traffic is None else traffic
    ends: dict[tuple[str, str], list[Receiver]] = {}
    for edge in plan.edges:
        if edge.from_task == task:
            sender = wiring.senders[edge, subtask]
            outlets = {target: find(edge.to_task, target, number) for target, number in sender.channels.items()}
            end = EdgeOutput(
                sender.partitioner,
                outlets,
                columns=edge.columns,
                order_columns=edge.order_columns,
                sent=counted.setdefault(edge.source, NodeBytes()),
            )
            ends.setdefault((edge.source, edge.output), []).append(end)
    return ends


class ChainBuilder:
    """Opens a task's nodes for one subtask. The caller must close all readers, operators and writers in `opened`."""

    def __init__(
        self,
        task: Task,
        context: SubtaskContext,
        outgoing: Outgoing,
        open_sink: OpenSink | None = None,
        resume: Resume | None = None,
    ) -> None:
        """`open_sink` opens the receiver of a sink's rows in place of its writer. `resume` is called before an operator
        is restored, and may give it its state in another way."""
        self._resume = resume
        self._task = task
        self._open_other_sink = open_sink
        self._context = context
        self._outgoing = outgoing
        self._nodes = {node.node: node for node in task.nodes}
        self.opened: list[Reader | OpenedStep | Writer] = []
        self.steps: dict[str, OpenedStep] = {}
        """Those of `opened` that are operators, by node."""
        self.links: dict[str, Link] = {}
        """The links of the chain by node."""
        self.places: dict[str, StatePlace] = {}
        """The places of the steps' rows, by node."""
        self.sinks: dict[str, SinkTask] = {}
        """The sinks of the chain by node."""

    def inputs(self) -> tuple[Receiver, ...]:
        """The receivers of a task without a source: one for each input, by number. Signals go to the first one."""
        head = self._task.nodes[0]
        opened: tuple[Receiver, ...]
        if isinstance(head, StepSpec):
            opened = self._open_step(head).inputs(len(head.config.input_schemas()))
        else:
            opened = (self._open(head.node),)
        return tuple(TimedReceiver(each, self.time(head.node), None) for each in opened)

    def source(self) -> SourceTask:
        """The source task of a task that begins with one."""
        spec = self._task.nodes[0]
        assert isinstance(spec, SourceSpec)
        context = self._context
        reader = spec.config.open_reader(source_context(spec, context.pipeline, context.poll_rows_max))
        self.opened.append(reader)
        time = SourceProgress(spec.node, spec.out_of_orderness_ms, context.floors, hand_over=context.hand_over)
        rows, bad = self.receiver(spec.node, MAIN), self.receiver(spec.node, BAD)
        return SourceTask(
            spec,
            reader=ReadAhead(
                reader,
                context.clock,
                name=f"{self._task.name}-{context.subtask}-ahead",
                rows_max=context.poll_rows_max,
                allowed=spec.config.reads_ahead,
            ),
            ingest=open_ingest(
                spec,
                time,
                rows=rows,
                bad=bad,
                counters=self.counters(spec.node),
                traffic=self.traffic(spec.node),
                formats=context.formats,
            ),
            time=time,
            hand_over=context.hand_over,
            clock=context.clock,
            timing=context.timing,
            snapshots=context.snapshots,
        )

    def receiver(self, node: str, output: str) -> Receiver:
        """The receiver of a node's output: the nodes that read it in the same task, and the edges to other tasks."""
        receivers = self._receivers(node, output)
        return receivers[0] if len(receivers) == 1 else Fan(receivers)

    def _receivers(self, node: str, output: str) -> list[Receiver]:
        sender = self.time(node)
        inside = [
            TimedReceiver(self._open(edge.target), self.time(edge.target), sender)
            for edge in self._task.edges
            if edge.source == node and edge.output == output
        ]
        return [*inside, *(TimedReceiver(end, None, sender) for end in self._outgoing.get((node, output), ()))]

    def _open(self, name: str) -> Receiver:
        spec = self._nodes[name]
        match spec:
            case StepSpec():
                return self._open_step(spec)
            case SinkSpec():
                return self._open_sink(spec)
            case SourceSpec():
                raise AssertionError("a source heads its task and receives nothing")

    def _open_step(self, spec: StepSpec) -> Link:
        outputs = self._outputs(spec.node)
        place = self.places[spec.node] = self._context.place.of_step()
        operator = spec.config.open_in(place)
        self.opened.append(operator)
        self.steps[spec.node] = operator
        states = self._context.restored.get(spec.node)
        resumed = self._resume is not None and self._resume(spec.node, operator)
        if states and not resumed:
            operator.restore(states)
        snapshots = self._context.snapshots
        link = Link(operator, outputs, self.counters(spec.node), node=spec.node, states=snapshots)
        self.links[spec.node] = link
        return link

    def _open_sink(self, spec: SinkSpec) -> Receiver:
        counters = self.counters(spec.node)
        refused = RefusedRows(spec, self._receivers(spec.node, BAD), counters)
        if self._open_other_sink is not None:
            return self._open_other_sink(spec, counters, refused)
        sink = SinkTask(
            spec,
            open_writer=lambda refuse: self._opened_writer(spec, refuse),
            refused=refused,
            snapshots=self._context.snapshots,
            counters=counters,
            lease=self._context.lease,
            traffic=self.traffic(spec.node),
            formats=self._context.formats,
        )
        self.sinks[spec.node] = sink
        return sink

    def _opened_writer(self, spec: SinkSpec, refuse: Refuse | None) -> Writer:
        context = self._context
        told = sink_context(
            spec,
            context.job,
            context.subtask,
            parallelism=context.parallelism,
            terms=context.terms,
            attempt=context.attempt,
            formats=context.formats,
        )
        keys = open_key_encoder(spec, context.formats)
        writer = spec.config.open_writer(replace(told, refuse=refuse, encode_keys=keys))
        self.opened.append(writer)
        return writer

    def _outputs(self, node: str) -> dict[str, list[Receiver]]:
        outputs = {edge.output for edge in self._task.edges if edge.source == node}
        outputs |= {output for name, output in self._outgoing if name == node}
        return {output: self._receivers(node, output) for output in sorted(outputs)}

    def counters(self, node: str) -> Counter[str]:
        """The counters of a node."""
        return self._context.counters.setdefault(node, Counter())

    def traffic(self, node: str) -> NodeBytes:
        """The counted bytes of a node."""
        return self._context.traffic.setdefault(node, NodeBytes())

    def time(self, node: str) -> NodeTime:
        """The measured time of a node."""
        return self._context.times.setdefault(node, NodeTime())
