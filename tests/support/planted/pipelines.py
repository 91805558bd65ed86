"""A pipeline with a value of every kind, for secrets to be planted in."""

from __future__ import annotations

from typing import Any


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
