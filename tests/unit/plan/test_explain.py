from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.local.engine.compile import Compiled, compile_pipeline
from headrace.plan.explain import explain_dict, explain_lines, plan_dict
from headrace.spec.reading.load import load_text
from headrace.spec.reading.read import pipeline_from_dict
from support.pages.blocks import blocks


def data() -> dict[str, Any]:
    return {
        "name": "delays",
        "parallelism": 2,
        "sources": {
            "flights": {
                "kafka": {
                    "brokers": "b:1",
                    "topic": "flights",
                    "properties": {"sasl.password": "hush", "client.rack": "r1"},
                },
                "format": "json",
                "schema": {"origin": "string not null", "delay": "float64", "at": "timestamp(s)"},
                "time": {"column": "at", "out_of_orderness": "30m", "idle_after": "1m"},
                "on_error": {"dead_letter": "wrong"},
            }
        },
        "steps": {
            "departed": {"from": "flights", "filter": "delay is not null"},
            "shaped": {"from": "departed", "select": {"origin": "origin", "late": "delay > 15", "delay": "delay"}},
            "hourly": {
                "from": "shaped",
                "key_by": ["origin"],
                "window": {"sliding": "1h", "every": "10m", "offset": "5m", "timezone": "Europe/Oslo"},
                "aggregate": {"n": "count(*)", "mean": "avg(delay)"},
                "allowed_lateness": "1m",
            },
        },
        "sinks": {
            "out": {
                "from": "hourly",
                "kafka": {
                    "brokers": "b:1",
                    "topic": "out",
                    "mode": "upsert",
                    "key": ["origin", "window_start", "window_end"],
                },
                "format": "json",
            }
        },
    }


def compiled(changes: dict[str, Any] | None = None) -> Compiled:
    return compile_pipeline(pipeline_from_dict({**data(), **(changes or {})}))


def test_the_canonical_plan_is_json_and_stable() -> None:
    plan = plan_dict(compiled().physical)

    assert json.loads(json.dumps(plan)) == plan
    assert plan == plan_dict(compiled().physical)
    assert len(plan["hash"]) == 64
    assert [task["name"] for task in plan["tasks"]] == ["flights", "hourly"]
    assert plan["edges"][0]["partitioning"] == "hash(origin)"
    source = plan["tasks"][0]["nodes"][0]
    assert source["schema"][2] == ["at", "timestamp(s)"]
    assert source["time"]["kind"] == "row"
    aggregate = plan["tasks"][1]["nodes"][0]
    assert aggregate["config"]["window"]["kind"] == "sliding"


def change(path: str, value: object) -> dict[str, Any]:
    """The data with one field changed."""
    changed = data()
    *above, last = path.split("/")
    here = changed
    for name in above:
        here = here[name]
    here[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sources/flights/kafka/topic", "other"),
        ("sources/flights/schema/at", "timestamp"),
        ("sources/flights/time/out_of_orderness", "31m"),
        ("steps/departed/filter", "delay is null"),
        ("steps/hourly/window", {"tumbling": "1h"}),
        ("steps/hourly/allowed_lateness", "2m"),
        ("parallelism", 3),
        ("max_parallelism", 64),
        ("batch", {"max_rows": 10}),
        ("sinks/out/format", {"json": {"timestamps": "epoch_ms"}}),
    ],
)
def test_every_difference_changes_the_hash(path: str, value: object) -> None:
    changed = compile_pipeline(pipeline_from_dict(change(path, value)))

    assert plan_dict(changed.physical)["hash"] != plan_dict(compiled().physical)["hash"]


def test_a_given_block_shows_the_defaults_written_in_it() -> None:
    made = compiled(change("sinks/out/kafka/create_topic", {"partitions": 1}))
    text = "\n".join(explain_lines(made.logical, made.physical))

    assert 'create_topic {"partitions": 1}' in text
    assert "replication" not in text


def test_secrets_are_masked_everywhere() -> None:
    made = compiled()
    shown = json.dumps(explain_dict(made.logical, made.physical)) + "\n".join(
        explain_lines(made.logical, made.physical)
    )

    assert "hush" not in shown
    assert "***" in shown
    assert "r1" in shown


def test_logical_nodes_say_what_they_give() -> None:
    made = compiled()
    nodes = {node["name"]: node for node in explain_dict(made.logical, made.physical)["nodes"]}

    assert list(nodes) == ["flights", "departed", "shaped", "hourly", "out", "flights.bad"]
    assert nodes["flights"]["time"] == "at, out of orderness 30m, idle after 1m"
    assert nodes["flights"]["side_outputs"]["bad"]["read"] is True
    assert nodes["hourly"]["emits"] == "updating(origin, window_start, window_end)"
    assert nodes["hourly"]["side_outputs"]["late"]["read"] is False
    assert nodes["shaped"]["columns"] == {"origin": "string not null", "late": "bool", "delay": "float64"}
    assert nodes["flights.bad"]["implicit"] is True
    assert nodes["out"]["columns"] is None


def test_the_text_says_the_same_at_a_glance() -> None:
    made = compiled()
    text = "\n".join(explain_lines(made.logical, made.physical))

    assert text.startswith("delays: 6 nodes in 2 tasks, 4 subtasks; replayable")
    assert "  does         filter delay is not null" in text
    assert "by origin; sliding 1h every 10m offset 5m in Europe/Oslo; allowed lateness 1m" in text
    assert "  hourly.late  append: origin string not null, late bool, delay float64 (nobody reads it)" in text
    assert "sink flights.bad (dead letters)" in text
    assert "  shaped -> hourly: hash(origin)" in text


def test_time_that_nothing_asks_for_is_told_from_no_time() -> None:
    source = {"kafka": {"brokers": "b:1", "topic": "t"}, "format": "json", "schema": {"n": "int64"}}
    rows = {"generator": {"rows": 1, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}
    sinks = {name: {"from": name[:-1], "print": {}, "format": "json"} for name in ("a_", "b_")}
    found = pipeline_from_dict({"name": "p", "sources": {"a": source, "b": rows}, "sinks": sinks})
    plans = compile_pipeline(found)
    lines = [line for line in explain_lines(plans.logical, plans.physical) if "event time" in line]
    assert lines == ["  event time   the record's, which no node asks for", "  event time   none"]


def test_reasons_against_a_replay_are_named() -> None:
    made = compile_pipeline(pipeline_from_dict(change("steps/hourly/lateness", "operator")))
    shown = explain_dict(made.logical, made.physical)

    assert shown["replayable"] is False
    hourly = next(node for node in shown["nodes"] if node["name"] == "hourly")
    assert hourly["not_replayable"]
    assert "not replayable: lateness: operator" in "\n".join(explain_lines(made.logical, made.physical))


def shown_states(changes: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    made = compile_pipeline(pipeline_from_dict(changes))
    return list(explain_lines(made.logical, made.physical)), explain_dict(made.logical, made.physical)


def test_a_windows_state_says_what_drops_it_and_what_waits_for_time() -> None:
    changed = data()
    changed["state"] = {"backend": "memory"}
    lines, shown = shown_states(changed)
    assert "  state        memory, without a bound" in lines
    (windows,) = (line for line in lines if line.startswith("  state        windows"))
    assert windows.endswith(
        "windows (memory): 1 row a key and pane of time;"
        " dropped: when the watermark passes the end of its last window + 1m"
    )
    assert (
        "  waits        for time: a window leaves when the watermark passes its end; rows up to 1m late change it"
        in lines
    )

    hourly = next(node for node in shown["nodes"] if node["name"] == "hourly")
    assert hourly["waits"].startswith("for time")
    (state,) = hourly["state"]
    assert (state["name"], state["keys"], state["row_per"]) == ("windows", ["origin"], ["key", "pane of time"])
    assert (state["backend"], state["grows"]) == ("memory", False)
    assert state["dropped"] == "when the watermark passes the end of its last window + 1m"


def test_the_state_of_a_running_aggregate_says_what_it_grows_with() -> None:
    changed = change(
        "steps/hourly", {"from": "shaped", "key_by": ["origin"], "aggregate": {"n": "count(distinct late)"}}
    )
    changed["state"] = {"backend": "disk", "memory": "64MiB", "dir": "/data"}
    changed["sinks"]["out"]["kafka"]["key"] = ["origin"]
    lines, shown = shown_states(changed)
    assert lines[1] == "  state        disk: 64MiB a slot in memory, more in local files in /data"
    (groups,) = (line for line in lines if line.startswith("  state        groups"))
    assert groups.endswith("groups (disk): 1 row a key; dropped: never; grows with the keys of shaped")
    (values,) = (line for line in lines if " distinct_" in line)
    assert values.endswith("1 row a key and value; dropped: never; grows with the keys and values of shaped")
    assert not any(line.startswith("  waits") for line in lines)
    assert shown["state"] == {"backend": "disk", "memory_bytes": 64 << 20, "dir": "/data"}
    hourly = next(node for node in shown["nodes"] if node["name"] == "hourly")
    assert hourly["waits"] is None
    assert [(each["dropped"], each["grows"]) for each in hourly["state"]] == [(None, True), (None, True)]


def test_one_group_over_all_rows_does_not_grow() -> None:
    changed = change("steps/hourly", {"from": "shaped", "aggregate": {"n": "count(*)"}})
    changed["sinks"]["out"] = {"from": "hourly", "print": {}}
    lines, shown = shown_states(changed)
    assert (
        lines[1]
        == "  state        disk: a quarter of the memory, at least 256MiB a slot, in memory, more in local files"
    )
    assert "  state        groups (disk): 1 row; dropped: never" in lines
    hourly = next(node for node in shown["nodes"] if node["name"] == "hourly")
    assert [each["grows"] for each in hourly["state"]] == [False]


def test_a_plan_without_state_says_nothing_of_it() -> None:
    changed = change("sinks", {"out": {"from": "shaped", "print": {}}})
    del changed["steps"]["hourly"]
    lines, shown = shown_states(changed)
    assert not any("  state " in line for line in lines)
    assert [node["state"] for node in shown["nodes"] if node["kind"] == "step"] == [[], []]


def test_every_verb_has_words() -> None:
    steps = {
        "a": {"from": "s", "with_columns": {"m": "n + 1"}},
        "b": {"from": "a", "drop": ["m"]},
        "c": {"from": "b", "rename": {"n": "k"}},
        "d": {"from": "c", "explode": "tags"},
        "e": {"from": "d", "select": ["k", "tags"]},
        "f": {"from": "c", "select": {"k": "k", "tags": "'x'"}},
        "g": {"union": ["e", "f"]},
        "h": {"from": "g", "map": {"function": "m.n:f", "schema": {"k": "int64"}}},
        "i": {"from": "h", "aggregate": {"total": "sum(k)"}},
    }
    pipeline = {
        "name": "verbs",
        "sources": {"s": {"memory": {"name": "x"}, "schema": {"n": "int64", "tags": ["string"]}}},
        "steps": steps,
        "sinks": {"o": {"from": "i", "memory": {"name": "y"}}},
    }
    made = compile_pipeline(pipeline_from_dict(pipeline))

    words = {node["name"]: node["what"] for node in explain_dict(made.logical, made.physical)["nodes"]}

    assert [words[name] for name in steps] == [
        "with_columns m = n + 1",
        "drop m",
        "rename n to k",
        "explode tags",
        "select k, tags",
        "select k = k, tags = 'x'",
        "union e, f",
        "map m.n:f",
        "aggregate total = sum(k); over all rows; running",
    ]
    assert words["s"] == "memory: name x"
    inputs = {(edge["source"], edge.get("input")) for edge in plan_dict(made.physical)["edges"]}
    assert inputs >= {("e", 0), ("f", 1)}


def test_the_plan_of_nodes_with_one_input_has_no_numbers_so_that_its_hash_stays() -> None:
    assert not any("input" in edge for edge in plan_dict(compiled().physical)["edges"])


def test_the_page_about_state_shows_what_explain_prints() -> None:
    """`..` on the page stands for lines that it leaves out."""
    page = list(blocks([Path("docs/concepts/state.md")]))
    (text,) = (each.text for each in page if each.is_pipeline)
    (shown,) = (each for each in page if each.is_commands)
    assert shown.commands() == ["headrace explain shop.yaml"]
    made = compile_pipeline(load_text(text, "shop.yaml", environ={}).pipeline)
    printed = iter(explain_lines(made.logical, made.physical))
    wanted = [line for line in shown.text.splitlines()[1:] if line != ".."]
    assert [line for line in wanted if line not in printed] == [], "in this order"
