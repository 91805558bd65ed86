"""The document of a slot's deployment: its wire form, and its text in logs and errors."""

from __future__ import annotations

from headrace.rpc.deployment import Deployment, PeerDocument

PIPELINE = {"name": "p", "sources": {"in": {"kafka": {"brokers": "b:1", "properties": {"sasl.password": "hunter2"}}}}}


def deployed() -> Deployment:
    return Deployment(
        pipeline=PIPELINE,
        plan_hash="abc",
        slot=0,
        slots=1,
        peers=(PeerDocument(index=0, host="localhost", port=1),),
        storage="/storage/job",
    )


def test_its_text_shows_no_secret() -> None:
    deployment = deployed()
    for text in (repr(deployment), str(deployment)):
        assert "hunter2" not in text
        assert "plan_hash='abc'" in text


def test_the_pipeline_travels_whole() -> None:
    deployment = deployed()
    assert Deployment.model_validate_json(deployment.model_dump_json()) == deployment
    assert deployment.model_dump()["pipeline"] == PIPELINE
