"""The rules for generated columns in a pipeline file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from headrace.core.config import Config, Duration


def _moment(given: Any) -> Any:
    moment = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Share = Annotated[float, Field(ge=0, le=1)]


class SequenceRule(Config):
    """`start`, `start + step`, ..: unique over all partitions."""

    start: int = Field(default=0, description="the first value")
    step: int = Field(default=1, description="the difference between two values")


class IntRule(Config):
    """Whole numbers from `min` to `max`, both included, all equally likely."""

    min: int = Field(default=0, description="the lowest value")
    max: int = Field(description="the highest value")

    @model_validator(mode="after")
    def _in_order(self) -> IntRule:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class FloatRule(Config):
    """Numbers from `min` up to, not including, `max`."""

    min: float = Field(default=0.0, description="the lowest value")
    max: float = Field(default=1.0, description="the upper bound, which is not reached")


class TimeRule(Config):
    """`start + row * step`, later by anything up to `jitter`: rows are out of order by at most that."""

    start: Annotated[datetime, BeforeValidator(_moment)] = Field(
        default=datetime(2024, 1, 1, tzinfo=UTC), description="time of the first row"
    )
    step: Duration = Field(default=1000, description="time between two rows")
    jitter: Duration = Field(default=0, description="how much later than that a row's time may be, at most")


class StringRule(Config):
    """Random lower-case letters and digits."""

    length: int = Field(default=8, ge=1, le=1000, description="number of characters")


class BoolRule(Config):
    """True with this probability."""

    probability: float = Field(default=0.5, ge=0, le=1, description="probability of true")


class ColumnRule(Config):
    """The rule that generates one column: exactly one rule, and the ratio of NULLs among its values."""

    sequence: SequenceRule | None = Field(default=None, description="equally spaced whole numbers, each once")
    int: IntRule | None = Field(default=None, description="random whole numbers")
    float: FloatRule | None = Field(default=None, description="random numbers")
    bool: BoolRule | None = Field(default=None, description="true or false")
    choice: tuple[Any, ...] | None = Field(default=None, min_length=1, description="one of these values, at random")
    time: TimeRule | None = Field(default=None, description="times that advance with the rows")
    string: StringRule | None = Field(default=None, description="random lower-case letters and digits")
    nulls: Share = Field(default=0.0, description="share of NULLs among the values")

    @model_validator(mode="after")
    def _one_rule(self) -> ColumnRule:
        given = [name for name in _RULES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a column has exactly one rule of {', '.join(_RULES)} (found {len(given)})")
        return self


_RULES = ("sequence", "int", "float", "bool", "choice", "time", "string")
