"""Bootstraps a savepoint from values that a user supplies, so that a job can start from it without an earlier job.

    given = given_states(plan, ["totals"])                   the columns that the steps need
    write_share(given["totals"], rows, Share(..), store)     writes one range of key groups: files and their handles
    finish(Bootstrap(..), handles, store)                    writes the manifest, last
    bootstrap(Bootstrap(..), {"totals": frame}, directory)   does all of it for frames in memory

Sources start as configured in the pipeline, or at the positions supplied. `reached_ms` is the watermark of the state:
windows that end by then count as fired, and rows behind it are late. It becomes the floor of every partition, which is
the least watermark of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace.checkpoint.manifest import FilePart, Manifest, SplitDocument, StateHandle
from headrace.checkpoint.paths import MANIFEST, STATE, savepoint_url, state_path
from headrace.checkpoint.savepoints.savepoint import write_savepoint
from headrace.checkpoint.stores.opening import open_folder
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.connect.source import Split, SplitId
from headrace.core.errors import UserError, did_you_mean
from headrace.core.group_ranges import group_span
from headrace.core.keygroups import key_groups
from headrace.core.signals import TIME_MIN
from headrace.core.source_state import SourceState, SplitState
from headrace.core.step_definition import StepDefinition
from headrace.operators.bootstrap.state import GivenState
from headrace.operators.operator import OperatorConfig
from headrace.plan.physical import PhysicalPlan, SourceSpec, StepSpec
from headrace.state.parquet import checksum, write_chunks
from headrace.state.row_groups import key_order
from headrace.state.snapshot import Chunk, StateKind, StateSnapshot

EPOCH = ATTEMPT = 1
CHUNK_ROWS = 65_536
"""Rows of a row group."""
Positions = Mapping[str, Mapping[str, Mapping[int, int]]]
"""Source -> topic -> partition -> the next position to read."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The parameters of a savepoint.

    nodes        node -> its kind, as in manifests
    plan_hash    of the plan; version: of headrace
    positions    start positions of sources; others start as configured in the pipeline
    splits       source -> its splits as its enumerator resolves them now, for the sources in `positions`
    reached_ms   the watermark of the state (epoch ms); None: none yet
    definitions  step -> what it computes from its state
    """

    plan: PhysicalPlan
    nodes: Mapping[str, str]
    plan_hash: str
    version: str
    created_at_ms: int
    positions: Positions = field(default_factory=dict)
    splits: Mapping[str, Sequence[Split]] = field(default_factory=dict)
    reached_ms: int | None = None
    definitions: Mapping[str, StepDefinition] = field(default_factory=dict)

    @property
    def job(self) -> str:
        """The savepoint's job id."""
        return f"bootstrap-{self.plan.pipeline}"


@dataclass(frozen=True, slots=True)
class Share:
    """One range of key groups of one step: that of subtask `subtask` out of `of`.

    watermark   windows that end by then have fired (epoch ms); held: the same less the allowed lateness
    """

    node: str
    subtask: int
    of: int
    max_parallelism: int
    watermark: int = TIME_MIN
    held: int = TIME_MIN


def given_states(plan: PhysicalPlan, names: Iterable[str]) -> dict[str, GivenState]:
    """The GivenState of each of these steps, with the columns that it needs. Raises UserError for a name that is not an
    aggregating step."""
    steps = {node.node: node for task in plan.tasks for node in task.nodes if isinstance(node, StepSpec)}
    states = {}
    for name in names:
        given = steps[name].config.given_state() if name in steps else None
        if given is None:
            keeping = tuple(name for name, node in steps.items() if node.config.states())
            what = f"step {name!r} keeps no state" if name in steps else f"there is no step {name!r}"
            near = did_you_mean(name, keeping)
            raise UserError(what, remedy=near or f"steps that keep state: {', '.join(keeping) or 'none'}")
        states[name] = given
    return states


def shares(boot: Bootstrap, node: str, of: int) -> tuple[Share, ...]:
    """The ranges of a step's key groups, `of` of them; one for a step without keys."""
    step = _step(boot.plan, node)
    watermark = held = TIME_MIN
    if boot.reached_ms is not None and step.windowed:
        watermark = boot.reached_ms - _held_above(boot.plan, node)
        held = watermark - step.held_back_ms
    count = of if any(shape.keys for shape in step.states()) else 1
    return tuple(Share(node, each, count, boot.plan.max_parallelism, watermark, held) for each in range(count))


def share_numbers(given: GivenState, frame: pl.DataFrame, share_count: int, max_parallelism: int) -> pl.Series:
    """The share of each row. `frame`: the supplied rows, with their key columns."""
    if not given.keys:
        return pl.zeros(frame.height, pl.Int32, eager=True)
    groups = key_groups(given.keys_of(frame), given.keys, max_parallelism)
    # as `subtask_of`, for all rows at once
    return pl.Series(groups.astype("int64") * share_count // max_parallelism).cast(pl.Int32)


def write_share(given: GivenState, frame: pl.DataFrame, share: Share, store: ObjectStore) -> tuple[StateHandle, ...]:
    """Writes the state of one share's rows and returns its handles. Raises UserError for invalid rows,
    ExternalError."""
    rows = given.fitted(frame)
    if share.held != TIME_MIN and (closed := given.first_closed(rows, share.held)) is not None:
        raise UserError(
            f"step {share.node}: the window of {closed} has closed by the time reached, and would never fire",
            remedy="leave out what has been published, or give an earlier `reached`",
        )
    snapshots = given.snapshot([_chunks(part) for part in given.parts(rows)], share.watermark)
    return tuple(_written(state, share, store) for state in snapshots if state.kind is StateKind.KEYED)


def _chunks(rows: pl.DataFrame) -> list[Chunk]:
    return [Chunk(number, part) for number, part in enumerate(rows.iter_slices(CHUNK_ROWS))] if rows.height else []


def write_time(given: GivenState, share: Share, store: ObjectStore) -> tuple[StateHandle, ...]:
    """Writes a step's state beside its rows (`StepTime`); called for one share of a step. Raises ExternalError."""
    snapshots = given.snapshot([], share.watermark)
    return tuple(_written(state, share, store) for state in snapshots if state.kind is not StateKind.KEYED)


def source_states(boot: Bootstrap) -> tuple[dict[str, SourceState], dict[str, tuple[SplitDocument, ...]]]:
    """The manifest's source states. Raises UserError for positions of unknown sources or partitions, and for missing
    ones."""
    sources = {node.node: node for task in boot.plan.tasks for node in task.nodes if isinstance(node, SourceSpec)}
    for name in boot.positions:
        if name not in sources:
            near = did_you_mean(name, tuple(sources))
            raise UserError(f"there is no source {name!r}", remedy=near or f"sources: {', '.join(sources)}")
    states, splits = {}, {}
    for name, spec in sources.items():
        reached = boot.reached_ms if spec.time is not None else None
        placed = _placed(name, boot.splits.get(name, ()), boot.positions[name]) if name in boot.positions else ()
        known = tuple(SplitState(item.id.topic, item.id.partition, item.start, None, reached) for item in placed)
        states[name] = SourceState(known, reached)
        splits[name] = tuple(SplitDocument.of(item) for item in placed)
    return states, splits


def finish(boot: Bootstrap, handles: Iterable[StateHandle], store: ObjectStore) -> str:
    """Writes the manifest, the last of the savepoint's files, and returns its path. Raises UserError if files are
    missing: their writer has another folder under that name."""
    states, splits = source_states(boot)
    handles = tuple(handles)
    there = set(store.list(STATE))
    if missing := [part.path for handle in handles for part in handle.files if part.path not in there]:
        raise UserError(
            f"{store.url} has no {missing[0]}, which was written: it is a folder of another host",
            remedy="name a place that all hosts reach (s3://bucket/prefix, hdfs://namenode/path, or a mount)",
        )
    manifest = Manifest(
        kind="savepoint",
        job=boot.job,
        pipeline=boot.plan.pipeline,
        epoch=EPOCH,
        attempt=ATTEMPT,
        created_at_ms=boot.created_at_ms,
        version=boot.version,
        plan_hash=boot.plan_hash,
        max_parallelism=boot.plan.max_parallelism,
        parallelism={node.node: task.parallelism for task in boot.plan.tasks for node in task.nodes},
        nodes=dict(boot.nodes),
        states=tuple(sorted(handles, key=lambda each: (each.node, each.subtask, each.state))),
        sources=states,
        splits=splits,
        definitions=dict(boot.definitions),
    )
    return write_savepoint(manifest, store.url)


def new_folder(boot: Bootstrap, directory: str) -> ObjectStore:
    """The folder of a new savepoint in `directory`."""
    return open_folder(savepoint_url(directory, boot.job, EPOCH, unique_part()))


def bootstrap(boot: Bootstrap, states: Mapping[str, pl.DataFrame], directory: str, of: int = 1) -> str:
    """Writes a savepoint in `directory` with the values of `states` (step -> rows), in `of` ranges of key groups;
    returns its path.

    Raises UserError for invalid values, before a manifest exists; ExternalError.
    """
    given = given_states(boot.plan, states)
    source_states(boot)  # problems of positions are reported before files are written
    for name, frame in states.items():
        given[name].check(frame.schema)
    store = new_folder(boot, directory)
    handles: list[StateHandle] = []
    try:
        for name, frame in states.items():
            cut = shares(boot, name, of)
            handles += write_time(given[name], cut[0], store)
            for share, rows in _split(boot, given[name], frame, cut):
                handles += write_share(given[name], rows, share, store)
        return finish(boot, handles, store)
    except BaseException:
        discard(store)
        raise


def discard(store: ObjectStore) -> None:
    """Deletes the files of an unfinished savepoint."""
    there = store.list("")
    # the manifest is written last: with it the savepoint is finished
    if MANIFEST not in there:
        store.delete(there)


def _split(
    boot: Bootstrap, given: GivenState, frame: pl.DataFrame, all_shares: Sequence[Share]
) -> Iterable[tuple[Share, pl.DataFrame]]:
    numbers = share_numbers(given, frame, len(all_shares), boot.plan.max_parallelism)
    return ((share, frame.filter(numbers == share.subtask)) for share in all_shares)


def _step(plan: PhysicalPlan, name: str) -> OperatorConfig:
    node = next(node for task in plan.tasks for node in task.nodes if node.node == name)
    assert isinstance(node, StepSpec), "only steps are given"
    return node.config


def _held_above(plan: PhysicalPlan, name: str) -> int:
    """How far the watermark before a node lags behind that of the sources (ms): operators hold back their allowed
    lateness."""
    feeding = [edge.source for task in plan.tasks for edge in task.edges if edge.target == name]
    feeding += [edge.source for edge in plan.edges if edge.to_task == name]
    nodes = {node.node: node for task in plan.tasks for node in task.nodes}
    held = [0]
    for source in feeding:
        node = nodes[source]
        own = node.config.held_back_ms if isinstance(node, StepSpec) else 0
        held.append(own + _held_above(plan, source))
    return max(held)


def _placed(source: str, splits: Sequence[Split], positions: Mapping[str, Mapping[int, int]]) -> tuple[Split, ...]:
    """The splits at the supplied positions: exactly one position per split."""
    asked = {SplitId(topic, number): at for topic, own in positions.items() for number, at in own.items()}
    there = {split.id: split for split in splits}
    if strange := sorted(asked.keys() - there.keys()):
        listed = ", ".join(str(each) for each in sorted(there)) or "no partition"
        raise UserError(f"source {source!r} has no {strange[0]}", remedy=f"it has {listed}")
    if missing := sorted(there.keys() - asked.keys()):
        raise UserError(
            f"positions of source {source!r} do not name {', '.join(map(str, missing))}",
            remedy="name each partition, with the offset of the first row that is not in the state",
        )
    for each, at in asked.items():
        if at < 0:
            raise UserError(f"source {source!r}: position {at} of {each} is negative")
    return tuple(there[each].starting_at(asked[each]) for each in sorted(asked))


def _written(state: StateSnapshot, share: Share, store: ObjectStore) -> StateHandle:
    first, last = group_span(share.subtask, share.of, share.max_parallelism)
    parts, columns = [], dict[str, str]()
    for file in write_chunks(state.chunks, key_order(state, share.max_parallelism)):
        path = state_path(ATTEMPT, EPOCH, share.node, share.subtask, unique_part())
        store.write(path, file.data)
        groups = tuple(range(len(file.rows)))
        parts.append(
            FilePart(
                path=path, row_groups=groups, rows=sum(file.rows), bytes=len(file.data), checksum=checksum(file.data)
            )
        )
        columns |= file.columns
    return StateHandle(
        node=share.node,
        state=state.name,
        kind=state.kind,
        keys=state.keys,
        subtask=share.subtask,
        first_group=first,
        last_group=last,
        columns=columns,
        files=tuple(parts),
    )
