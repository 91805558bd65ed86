"""The settings of the sql sink: fields of the pipeline file, their validation, and derived facts.

Pure: asks no database and imports no SQLAlchemy. The live halves take these settings; `connector` opens them.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from headrace.connect.checkpoint_terms import refused_terms
from headrace.connect.row_check import columns_holding
from headrace.connect.sink import SinkContext
from headrace.core.config import Config, secret
from headrace.core.types import ListOf, Primitive, Struct
from headrace_connectors.sql.tables.staged_parts import StagedBy
from headrace_connectors.sql.tables.target import IDENTIFIER_BYTES_MAX, STAGED_SUFFIX, Target

_URL = re.compile(r"(?P<dialect>[a-z][a-z0-9_]*)(\+(?P<driver>[a-z0-9_]+))?://(?P<rest>.*)", re.DOTALL)
_DRIVERS = {"postgresql": ("", "psycopg"), "sqlite": ("", "pysqlite")}
"""Dialects with full support, and their drivers; other dialects are left to SQLAlchemy."""


class SqlSinkSettings(Config):
    """The fields of a sql sink."""

    # columns, not messages: a table has columns
    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    # entirely secret: a password may be anywhere in it
    url: str = secret(description="SQLAlchemy URL: postgresql://user:password@host:5432/database, sqlite:////data/x.db")
    table: str = Field(description="the table, or schema.table")
    mode: Literal["append", "upsert"] = Field(
        default="append", description="append: each row is inserted; upsert: the last row of a key replaces the others"
    )
    key: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="columns that name a row; the table has a unique constraint on them"
    )
    updates: Literal["as_rows"] | None = Field(
        default=None, description="as_rows: mode append accepts updating rows and inserts each update as one more row"
    )
    delivery: Literal["at-least-once", "exactly-once"] = Field(
        default="at-least-once",
        description="exactly-once: rows are staged, and moved into the table when their checkpoint is complete",
    )
    create_table: bool = Field(default=False, description="make the table where there is none")

    @field_validator("url")
    @classmethod
    def _url_is_one(cls, url: str) -> str:
        # no message repeats the text: it may contain a password
        match = _URL.fullmatch(url)
        if match is None:
            raise ValueError("url is no SQLAlchemy URL: write dialect://user:password@host:port/database")
        dialect, driver = match["dialect"], match["driver"] or ""
        if dialect == "postgres":
            raise ValueError("write postgresql://, which is what SQLAlchemy calls it")
        if dialect in _DRIVERS and driver not in _DRIVERS[dialect]:
            raise ValueError(f"the driver {driver!r} is not used here: write {dialect}://")
        if dialect == "sqlite" and (match["rest"].split("?")[0] in {"", "/"} or ":memory:" in match["rest"]):
            raise ValueError("a SQLite database in memory is seen by nobody else: write sqlite:////path/of/a/file.db")
        return url

    @field_validator("table")
    @classmethod
    def _table_is_a_name(cls, table: str) -> str:
        parts = table.split(".")
        if len(parts) > 2 or not all(part.strip() == part and part for part in parts):
            raise ValueError(f"{table!r} is no table: write table, or schema.table")
        return table

    @field_validator("key", mode="before")
    @classmethod
    def _one_or_many(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.mode == "upsert" and self.key is None:
            raise ValueError("mode: upsert needs key: the columns that name a row")
        if self.mode == "append" and self.key is not None:
            raise ValueError("key goes with mode: upsert; appended rows need none")
        if self.mode == "upsert" and self.updates is not None:
            raise ValueError("updates: as_rows goes with mode: append; upsert keeps the last row per key")
        if self.key is not None and len(set(self.key)) != len(self.key):
            raise ValueError("key names a column twice")
        if self.dialect not in _DRIVERS and (self.mode == "upsert" or self.exactly_once):
            asked = "mode: upsert" if self.mode == "upsert" else "delivery: exactly-once"
            raise ValueError(
                f"{asked} is for PostgreSQL and SQLite; with {self.dialect} rows are appended at least once"
            )
        if self.exactly_once and len((self.target.table + STAGED_SUFFIX).encode()) > IDENTIFIER_BYTES_MAX:
            longest = IDENTIFIER_BYTES_MAX - len(STAGED_SUFFIX)
            raise ValueError(f"with delivery: exactly-once the name of a table has at most {longest} bytes")
        return self

    @property
    def dialect(self) -> str:
        """`postgresql`, `sqlite`, or another of SQLAlchemy's."""
        return self.url.partition(":")[0].partition("+")[0]

    @property
    def target(self) -> Target:
        """The user's table."""
        schema, _, table = self.table.rpartition(".")
        return Target(table=table, schema=schema or None)

    @property
    def refuses(self) -> Literal["never", "in_write", "in_flush"]:
        """Rows are stored when the buffer is full, and at the barrier. Dialects without full support may have no
        savepoints."""
        return "in_flush" if self.dialect in _DRIVERS else "never"

    @property
    def refusals_depend_on(self) -> str | None:
        """The constraints of the table."""
        return "the constraints and the rows of the table"

    @property
    def accepts_updates(self) -> bool:
        """Whether the sink accepts updating rows: by key, or as plain rows if configured."""
        return self.mode == "upsert" or self.updates == "as_rows"

    @property
    def accepts_deletes(self) -> bool:
        """Whether the sink can apply a delete: in upsert mode."""
        return self.mode == "upsert"

    @property
    def key_columns(self) -> tuple[str, ...] | None:
        """Columns of the key, in order."""
        return self.key

    @property
    def exactly_once(self) -> bool:
        """Whether rows are staged, and moved into the table when their epoch is committed."""
        return self.delivery == "exactly-once"

    def transactions(self, context: SinkContext) -> tuple[str, ...]:
        """The common prefix of the names of all parts that this writer may stage."""
        return (str(StagedBy.of(context)),) if self.exactly_once else ()

    def check(self, context: SinkContext) -> list[str]:
        """Exactly-once requires aligned checkpoints. Keys must be distinct in the table if they are in the rows."""
        terms = refused_terms(context.checkpoint) if self.exactly_once else []
        floats = columns_holding(context.schema, lambda dtype: dtype in (Primitive.FLOAT32, Primitive.FLOAT64))
        types = {name: context.schema.field(name).type for name in self.key or () if name in floats}
        return terms + [
            f"key column {name!r} is {dtype}: a table has it as JSON, in which NaN, infinities and NULL are one value, "
            "so rows of different keys would replace each other; make the key of plain columns"
            for name, dtype in types.items()
            if isinstance(dtype, ListOf | Struct)
        ]

    @property
    def publishes_once(self) -> bool:
        """Whether the dialect has full support."""
        return self.dialect in _DRIVERS
