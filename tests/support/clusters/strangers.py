"""What a user of this host without a token gets from a coordinator, at both of its ports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import grpc
import httpx

from headrace import __version__
from headrace.coordinator.rest.openapi import TARGET
from headrace.rpc import codec
from headrace.rpc.messages import Register
from headrace.rpc.v1 import control_pb2
from support.processes.running import WAIT_SECONDS
from support.repository import ROOT

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CALLS = ("/headrace.rpc.v1.Control/Attach", "/headrace.rpc.v1.Control/Other", "/grpc.health.v1.Health/Check")


def rest_statuses(url: str) -> dict[str, int]:
    """The status of every method at every route of the OpenAPI document."""
    routes = json.loads((ROOT / TARGET).read_text())["paths"]
    with httpx.Client(base_url=url, timeout=WAIT_SECONDS, trust_env=False) as http:
        return {
            f"{method} {path}": http.request(method, path, headers={"Content-Type": "application/json"}).status_code
            for path in [*routes, "/v1/openapi.json", "/"]
            for method in METHODS
        }


def control_answers(address: str) -> list[str]:
    """What the control plane sends to calls without a token, as kinds of messages; nothing for those that it ends."""
    with grpc.insecure_channel(address) as channel:
        return [kind for call in CALLS for sent in _greetings() for kind in _answers(channel, call, sent)]


def _greetings() -> Iterator[bytes]:
    """Nothing that a message is, and a registration that proves nothing."""
    yield from (b"", b"\xff\xff", b"GET / HTTP/1.1\r\n\r\n")
    register = Register("stranger", "127.0.0.1", os.getpid(), 2, __version__)
    frame = control_pb2.WorkerFrame(session="s", message=codec.from_worker_proto(register))
    yield frame.SerializeToString()


def _answers(channel: grpc.Channel, call: str, sent: bytes) -> Iterator[str]:
    stream = channel.stream_stream(call, lambda data: data, lambda data: data)
    try:
        for answer in stream(iter([sent]), timeout=WAIT_SECONDS):
            frame = control_pb2.CoordinatorFrame.FromString(answer)
            yield "nonce" if frame.nonce else str(frame.message.WhichOneof("kind"))
    except grpc.RpcError:
        return
