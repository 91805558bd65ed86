"""The top-level settings of a pipeline: batch, checkpoint, state, restart. Data and defaults only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from headrace.core.config import Duration, FileModel, Size, duration_text, parse_size_bytes, size_text
from headrace.core.errors import did_you_mean
from headrace.spec.findings import joined, wrong
from headrace.spec.window import NOT_IN_THIS_VERSION
from headrace.spec.wording import kind_of, read_model
from headrace.state.place import StateTerms

NotNegative = Annotated[Duration, Field(ge=0)]
Positive = Annotated[Duration, Field(gt=0)]


class Batch(FileModel):
    """When a source hands on what it has: after `max_delay`, or with `max_rows` rows."""

    max_delay_ms: NotNegative = Field(
        default=5,
        validation_alias="max_delay",
        serialization_alias="max_delay",
        description="a source hands on what it has after this long",
    )
    max_rows: int = Field(default=32_768, ge=1, description="rows in a batch, at most")


def _interval(data: object) -> object:
    return None if data == "none" else data


Interval = Annotated[
    Positive | None,
    BeforeValidator(_interval),
    PlainSerializer(lambda value: "none" if value is None else duration_text(value), return_type=str),
    WithJsonSchema({"type": "string", "examples": ["10s", "none"]}),
]


class Checkpoint(FileModel):
    """How often and where a job's state is kept. Interval `none` (None here): no checkpoints."""

    interval_ms: Interval = Field(
        default=10_000, validation_alias="interval", serialization_alias="interval", description="a length, or none"
    )
    mode: Literal["exactly-once", "at-least-once"] = Field(default="exactly-once", description="whether inputs align")
    timeout_ms: Positive = Field(
        default=600_000, validation_alias="timeout", serialization_alias="timeout", description="given up after this"
    )
    min_pause_ms: NotNegative = Field(
        default=0, validation_alias="min_pause", serialization_alias="min_pause", description="between two of them"
    )
    tolerable_failures: int = Field(default=0, ge=0, description="failed checkpoints in a row that fail no job")
    retained: int = Field(default=3, ge=1, description="completed checkpoints that are kept")
    storage: str | None = Field(default=None, description="URL; default: checkpoints under $HEADRACE_HOME")


MEMORY_BYTES_MIN = 32 << 20
"""The least budget: recent rows, caches and merges of a slot take some of it."""


def _backend(data: object) -> object:
    if data == "rocksdb":
        raise wrong(f"state backend 'rocksdb' is {NOT_IN_THIS_VERSION}", "use disk")
    return data


def _memory(data: object) -> object:
    size = parse_size_bytes(data)
    if size < MEMORY_BYTES_MIN:
        raise wrong(f"{size_text(size)} is less than a slot needs", f"write at least {size_text(MEMORY_BYTES_MIN)}")
    return size


class State(FileModel):
    """Where operators keep what they remember.

    backend      `disk`: rows beyond `memory` lie in local files; or `memory`
    memory_bytes  bytes of a slot's state in memory. None: with `memory` no bound, with `disk` a quarter of the memory
                  of its container or host, divided by the worker's slots, and at least 256 MiB
    dir          folder of local files. None: `$HEADRACE_STATE_DIR`, or the worker's folder
    """

    backend: Annotated[Literal["memory", "disk"], BeforeValidator(_backend)] = Field(
        default="disk", description="disk: more than `memory` goes to local files; or memory"
    )
    memory_bytes: Annotated[Size, BeforeValidator(_memory)] | None = Field(
        default=None,
        validation_alias="memory",
        serialization_alias="memory",
        description="of one slot's state; with disk what stays in memory, with memory a cap, none unless said",
    )
    dir: str | None = Field(
        default=None, description="folder of local files; default: $HEADRACE_STATE_DIR, or the worker's"
    )

    @model_validator(mode="after")
    def _dir_of_disk(self) -> Self:
        if self.dir is not None and self.backend != "disk":
            raise wrong("state in memory has no local files", "set backend: disk, or leave dir out", "dir")
        return self

    def terms(self) -> StateTerms:
        """The same, for the slots."""
        return StateTerms(self.backend, self.memory_bytes, self.dir)


_STRATEGY = "what follows a failure"


def _poison_after(data: object) -> object:
    if data == "off":
        return None
    # the scalars of a file are texts
    if isinstance(data, bool) or not str(data).isdecimal() or int(str(data)) < 1:
        raise wrong(
            f"takes a number from 1, or off, not {kind_of(data)}", "write poison_after: 3, or poison_after: off"
        )
    return data


PoisonAfter = Annotated[
    int | None,
    BeforeValidator(_poison_after),
    PlainSerializer(lambda value: "off" if value is None else value, return_type=int | str),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "off"}]}),
]


class _Restarts(FileModel):
    poison_after: PoisonAfter = Field(
        default=3, description="the same failure so often at the same positions ends the job, or off"
    )


class ExponentialDelay(_Restarts):
    """Starts again after a delay that grows by half from `initial` up to `max`, and anew after 10 stable minutes."""

    strategy: Literal["exponential-delay"] = Field(default="exponential-delay", description=_STRATEGY)
    initial_ms: Positive = Field(
        default=1_000, validation_alias="initial", serialization_alias="initial", description="the first delay"
    )
    max_ms: Positive = Field(
        default=60_000, validation_alias="max", serialization_alias="max", description="the longest delay"
    )


class FixedDelay(_Restarts):
    """Starts again up to `attempts` times, `delay` after each failure."""

    strategy: Literal["fixed-delay"] = Field(default="fixed-delay", description=_STRATEGY)
    attempts: int = Field(ge=1, description="restarts, at most")
    delay_ms: NotNegative = Field(
        default=1_000, validation_alias="delay", serialization_alias="delay", description="time before a restart"
    )


class FailureRate(_Restarts):
    """Starts again unless there were more than `failures` within `per`."""

    strategy: Literal["failure-rate"] = Field(default="failure-rate", description=_STRATEGY)
    failures: int = Field(ge=1, description="failures within `per`, at most")
    per_ms: Positive = Field(
        validation_alias="per", serialization_alias="per", description="the time in which failures are counted"
    )


class NoRestart(FileModel):
    """A failure ends the job."""

    strategy: Literal["none"] = Field(default="none", description=_STRATEGY)


Restart = ExponentialDelay | FixedDelay | FailureRate | NoRestart
STRATEGIES: dict[str, type[Restart]] = {
    "exponential-delay": ExponentialDelay,
    "fixed-delay": FixedDelay,
    "failure-rate": FailureRate,
    "none": NoRestart,
}


def read_restart(data: object) -> Restart:
    """A restart strategy from its file form. Raises FindingsError."""
    if isinstance(data, ExponentialDelay | FixedDelay | FailureRate | NoRestart):
        return data
    if not isinstance(data, Mapping):
        raise wrong(f"takes a mapping, not {kind_of(data)}", "write {strategy: fixed-delay, attempts: 3, delay: 1s}")
    strategy = data.get("strategy", "exponential-delay")
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        near = did_you_mean(str(strategy), tuple(STRATEGIES))
        raise wrong(
            f"{kind_of(strategy)} is not valid for 'strategy'",
            joined(near, f"valid values: {', '.join(STRATEGIES)}"),
            "strategy",
        )
    return read_model(STRATEGIES[strategy], data)


def restart_dict(restart: Restart) -> dict[str, Any]:
    """The file form of a restart strategy."""
    return {"strategy": restart.strategy, **restart.model_dump(mode="json", by_alias=True, exclude_defaults=True)}


RestartField = Annotated[
    Restart,
    BeforeValidator(read_restart),
    PlainSerializer(restart_dict, return_type=dict),
    WithJsonSchema({"oneOf": [model.model_json_schema(by_alias=True) for model in STRATEGIES.values()]}),
]
