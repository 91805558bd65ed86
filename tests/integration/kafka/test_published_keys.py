"""Keys that JSON writes the same inside of a value are read back as different ones, by the message key."""

from __future__ import annotations

from pathlib import Path

from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob
from headrace.local.inspection.published import as_read_back, read_published
from headrace.plan.physical import SinkSpec
from headrace.spec.reading.read import pipeline_from_dict
from support.kafka.broker import Broker, create_topic, unique_topic


def test_groups_that_a_value_does_not_tell_apart(broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, unique_topic("groups"), 2)
    (tmp_path / "rows.csv").write_text("NaN,1\ninf,2\n-inf,4\nNaN,64\n,8\n0.0,16\n-0.0,32\n")
    kafka = {"brokers": broker.bootstrap, "topic": topic, "mode": "upsert", "key": ["f"]}
    model = pipeline_from_dict(
        {
            "name": topic,
            "sources": {
                "s": {
                    "files": {"path": str(tmp_path / "rows.csv")},
                    "format": "csv",
                    "schema": {"f": "float64", "v": "int64"},
                    "on_error": "fail",
                }
            },
            "steps": {
                "some": {"from": "s", "filter": "f is not null"},
                "w": {"from": "some", "key_by": ["f"], "aggregate": {"s": "sum(v)"}},
            },
            "sinks": {"out": {"from": "w", "kafka": kafka, "format": "json"}},
        }
    )
    plan = compile_pipeline(model).physical
    assert LocalJob(plan, JobOptions()).run(lambda _: None) is JobState.FINISHED
    (spec,) = (node for task in plan.tasks for node in task.nodes if isinstance(node, SinkSpec))

    found = read_published(spec, topic)

    assert sorted(found.rows.get_column("s").to_list()) == [2, 4, 48, 65]
    # as `replay --against` compares them with history
    assert as_read_back(spec, found.rows).equals(found.rows)
