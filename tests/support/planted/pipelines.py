"""A pipeline with a value of every kind, for secrets to be planted in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROWS = ["1,one,2024-01-01T00:00:00Z", "0,two,2024-01-01T00:00:01Z"]


def everything(brokers: str, topic: str, folder: str) -> dict[str, Any]:
    """It runs and ends as it is. Its topic need not exist if one that does is planted over."""
    return {
        "name": "planted",
        "parallelism": "1",
        "batch": {"max_delay": "5ms"},
        "checkpoint": {"interval": "1s", "retained": "2"},
        "restart": {"strategy": "none"},
        "connections": {"main": {"kafka": {"brokers": brokers, "properties": {"client.id": "some"}}}},
        "sources": {
            "numbers": {
                "kafka": {
                    "use": "main",
                    "topic": topic,
                    "start": "earliest",
                    "stop": "latest",
                    "group": "readers",
                    "properties": {"fetch.wait.max.ms": "50"},
                },
                "format": {"csv": {"delimiter": ","}},
                "schema": {"n": "int64", "word": "string", "at": "timestamp"},
                "time": {"column": "at", "out_of_orderness": "1s"},
                "on_error": "skip",
            }
        },
        "steps": {
            "chosen": {"from": "numbers", "filter": "n > 0 and word <> 'none'"},
            "counted": {"from": "chosen", "with_columns": {"m": "n + 1", "w": "upper(word)"}},
            "summed": {
                "from": "counted",
                "key_by": ["w"],
                "window": {"tumbling": "1h", "timezone": "UTC"},
                "aggregate": {"total": "sum(m)"},
            },
        },
        "sinks": {
            "sums": {"from": "summed", "files": {"path": f"{folder}/sums"}, "format": "json"},
            "rows": {
                "from": "counted",
                "sql": {"url": f"sqlite:///{folder}/rows.db", "table": "rows", "create_table": "true"},
            },
        },
    }


def everything_from_files(folder: Path) -> dict[str, Any]:
    """The same, but its rows lie in a file: no broker is needed."""
    (folder / "rows.csv").write_text("\n".join(ROWS))
    pipeline = everything("localhost:1", "numbers", str(folder))
    source = pipeline["sources"]["numbers"]
    source.pop("kafka")
    source["files"] = {"path": str(folder / "rows.csv")}
    source["format"] = {"csv": {"header": "false"}}
    return pipeline


def changed(pipeline: dict[str, Any], place: Sequence[str], text: str) -> dict[str, Any]:
    """The pipeline with that value at a place."""
    here = pipeline
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = text
    return pipeline
