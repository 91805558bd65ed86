"""What servers' refusals mean."""

from __future__ import annotations

import json

import pytest

from headrace.hdfs.refusals import Kind, refusal


def body(exception: str, message: str) -> bytes:
    return json.dumps({"RemoteException": {"exception": exception, "javaClassName": "", "message": message}}).encode()


@pytest.mark.parametrize(
    ("exception", "message", "kind"),
    [
        ("FileNotFoundException", "File /a not found.", Kind.MISSING),
        ("AccessControlException", "/a/b (is not a directory)", Kind.MISSING),
        ("AccessControlException", "Permission denied: user=bob", Kind.DENIED),
        ("FileAlreadyExistsException", "rename destination /a already exists", Kind.EXISTS),
        ("StandbyException", "Operation category READ is not supported in state standby", Kind.STANDBY),
        ("RetriableException", "Namenode is in startup mode", Kind.STARTING),
        ("NSQuotaExceededException", "The NameSpace quota is exceeded", Kind.QUOTA),
        ("InvalidToken", "token (..) is expired", Kind.UNAUTHORIZED),
        ("IOException", "Failed to find datanode, suggest to check cluster health", Kind.NO_DATA_NODE),
        ("IOException", "No active and not excluded nodes contain this block", Kind.NO_DATA_NODE),
        ("IOException", "could only be written to 0 of the 1 minReplication nodes", Kind.OTHER),
    ],
)
def test_the_kind_follows_from_the_exception(exception: str, message: str, kind: Kind) -> None:
    error = refusal(403, body(exception, message))
    assert error.kind is kind
    assert error.message == f"{exception}: {message}"
    assert error.retry


def test_stack_traces_are_cut_off_and_what_precedes_them_is_not() -> None:
    said = "Name node is in safe mode.\nIt was turned on manually."
    trace = "\n\tat org.apache.hadoop.Server.run(Server.java:1)\n"
    assert refusal(403, body("SafeModeException", said + trace)).message == (
        "SafeModeException: Name node is in safe mode. It was turned on manually."
    )


@pytest.mark.parametrize("page", [b"", b"<html>", b"[]", b"{}", b'{"RemoteException": {}}'])
def test_an_answer_that_is_no_document(page: bytes) -> None:
    assert refusal(502, page).message == "status 502"
    assert refusal(502, page).kind is Kind.OTHER
    assert refusal(401, page).kind is Kind.UNAUTHORIZED
