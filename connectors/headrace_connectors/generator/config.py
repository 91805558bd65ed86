"""The settings of the generator source: fields of the pipeline file, their validation, and derived facts.

Pure. The live halves take these settings; `connector` opens them.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from headrace.connect.offsets_by_partition import LATEST, StopField
from headrace.connect.source import SplitId
from headrace.core.config import Config
from headrace_connectors.generator.rules import ColumnRule


class GeneratorSourceSettings(Config):
    """The fields of a generator source."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    rows: int | None = Field(
        default=None, ge=0, description="rows over all partitions; without it, the source has no end"
    )
    rate: float | None = Field(
        default=None, gt=0, description="rows a second over all partitions; without it, as fast as possible"
    )
    seed: int = Field(default=0, description="seed of the random values: an equal seed generates equal rows")
    partitions: int = Field(default=1, ge=1, le=100_000, description="number of partitions")
    stop: StopField = Field(
        default=None, description="where to end: {<partition>: <row>}, counted within the partition; latest: at `rows`"
    )
    columns: dict[str, ColumnRule] = Field(min_length=1, description="the rule that generates a column, by column name")

    @model_validator(mode="after")
    def _ends_somewhere(self) -> Self:
        if self.stop == LATEST and self.rows is None:
            raise ValueError("makes rows without end, so there is no latest one: give `rows`, or `stop` by partition")
        return self

    @property
    def bounded(self) -> bool:
        """Whether `rows` or `stop` is set."""
        return self.rows is not None or self.stop is not None

    def describe_position(self, split: SplitId, position: int) -> str:
        """`partition 0 row 17`, counted from 0 within the partition."""
        return f"partition {split.partition} row {position}"
