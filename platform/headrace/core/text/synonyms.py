"""Other systems' words for names in a pipeline file. For remedies only: a file accepts Headrace's words alone."""

from __future__ import annotations

from collections.abc import Sequence

TYPE_SYNONYMS: dict[str, str] = {
    "bigint": "int64",
    "blob": "binary",
    "boolean": "bool",
    "bytea": "binary",
    "bytes": "binary",
    "char": "string",
    "datetime": "timestamp",
    "double": "float64",
    "double precision": "float64",
    "float": "float32",
    "int": "int32",
    "integer": "int32",
    "long": "int64",
    "numeric": "decimal",
    "number": "float64",
    "real": "float32",
    "short": "int32",
    "smallint": "int32",
    "str": "string",
    "text": "string",
    "timestamptz": "timestamp",
    "tinyint": "int32",
    "utf8": "string",
    "varbinary": "binary",
    "varchar": "string",
}
"""SQL, Java, Arrow and Python names of types, in lower case, to the type that a schema names. Casts read the SQL
names alike."""

KEY_SYNONYMS: dict[str, tuple[str, ...]] = {
    "agg": ("aggregate",),
    "assign": ("with_columns",),
    "auto_offset_reset": ("start",),
    "bootstrap_servers": ("brokers",),
    "columns": ("schema",),
    "consumer_group": ("group",),
    "event_time": ("time",),
    "fields": ("schema",),
    "flatten": ("explode",),
    "group_by": ("key_by",),
    "group_id": ("group",),
    "groupby": ("key_by",),
    "hop": ("sliding",),
    "hopping": ("sliding",),
    "input": ("from", "sources"),
    "inputs": ("from", "sources"),
    "keyed_by": ("key_by",),
    "max_out_of_orderness": ("out_of_orderness",),
    "output": ("sinks",),
    "outputs": ("sinks",),
    "partition_by": ("key_by", "partition"),
    "project": ("select",),
    "projection": ("select",),
    "servers": ("brokers",),
    "size": ("tumbling",),
    "slide": ("every",),
    "source": ("from", "sources"),
    "transforms": ("steps",),
    "tumble": ("tumbling",),
    "unnest": ("explode",),
    "watermark": ("time", "out_of_orderness"),
    "where": ("filter",),
}
"""Keys of Flink, Kafka clients, Benthos and SQL, with `_` for every dot and dash, to keys of a pipeline file. The first
one that is valid at the place is meant."""


def key_meant(key: str, valid: Sequence[str]) -> str | None:
    """The valid key that `key` is a synonym of, or None."""
    normal = key.lower().replace(".", "_").replace("-", "_")
    candidates = (normal, *KEY_SYNONYMS.get(normal, ()))
    return next((name for name in candidates if name != key and name in valid), None)
