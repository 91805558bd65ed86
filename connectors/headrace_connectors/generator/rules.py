"""The rules for generated columns in a pipeline file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from headrace.core.config import Config, Duration


def _moment(given: Any) -> Any:
    moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Share = Annotated[float, Field(ge=0, le=1, description="0 to 1")]


class SequenceRule(Config):
    """`start`, `start + step`, ..: unique over all partitions."""

    start: int = 0
    step: int = 1


class IntRule(Config):
    """Whole numbers from `min` to `max`, both included, all equally likely."""

    min: int = 0
    max: int

    @model_validator(mode="after")
    def _in_order(self) -> IntRule:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class FloatRule(Config):
    """Numbers from `min` up to, not including, `max`."""

    min: float = 0.0
    max: float = 1.0


class TimeRule(Config):
    """`start + row * step`, later by anything up to `jitter`: rows are out of order by at most that."""

    start: Annotated[datetime, BeforeValidator(_moment)] = datetime(2024, 1, 1, tzinfo=UTC)
    step: Duration = 1000
    jitter: Duration = 0


class StringRule(Config):
    """Random lower-case letters and digits."""

    length: int = Field(default=8, ge=1, le=1000)


class BoolRule(Config):
    """True with this probability."""

    probability: float = Field(default=0.5, ge=0, le=1)


class ColumnRule(Config):
    """The rule that generates one column: exactly one rule, and the ratio of NULLs among its values."""

    sequence: SequenceRule | None = None
    int: IntRule | None = None
    float: FloatRule | None = None
    bool: BoolRule | None = None
    choice: tuple[Any, ...] | None = Field(default=None, min_length=1)
    time: TimeRule | None = None
    string: StringRule | None = None
    nulls: Share = 0.0

    @model_validator(mode="after")
    def _one_rule(self) -> ColumnRule:
        given = [name for name in _RULES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a column has exactly one rule of {', '.join(_RULES)} (found {len(given)})")
        return self


_RULES = ("sequence", "int", "float", "bool", "choice", "time", "string")
