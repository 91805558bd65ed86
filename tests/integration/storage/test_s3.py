"""What only S3 has, on a real server (moto) in a process of its own; `conformance/test_stores.py` has the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError, UserError
from support.storage.s3_server import BUCKET, S3Server, s3_server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{request.node.name}"


def test_a_put_waits_for_another_one_of_that_name(bucket: str) -> None:
    store = open_store(f"{bucket}/storage/")
    assert store.put_if_absent("contested", b"one")
    assert not store.put_if_absent("contested", b"two")


def test_what_is_wrong_is_said(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExternalError, match="no bucket elsewhere"):
        open_store("s3://elsewhere/x").put_if_absent("a", b"")
    with pytest.raises(ExternalError, match="no bucket elsewhere"):
        open_store("s3://elsewhere/x").list("")
    with pytest.raises(UserError, match="names no bucket"):
        open_store("s3:///x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(ExternalError, match="cannot write s3://checkpoints/x/a") as caught:
        open_store("s3://checkpoints/x").put_if_absent("a", b"")
    assert caught.value.retry
