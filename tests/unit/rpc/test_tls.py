"""The control plane by TLS: who joins, and what a worker says of a coordinator that it does not get on with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import __version__
from headrace.rpc.client import ClientHandlers, ControlClient, CoordinatorAccess
from headrace.rpc.messages import KillSlot, Register, ToWorker
from headrace.tls.files import TlsFiles
from support.certificates import DAY, Authority, tls_files_of
from support.control.server import TOKEN, ServerInThread
from support.patience import CONTROL_TIMES
from support.processes.running import wait_until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def files(authority: Authority) -> TlsFiles:
    return tls_files_of(authority, "coordinator")


@contextmanager
def worker(server: ServerInThread, tls: TlsFiles | None, told: list[ToWorker] | None = None) -> Iterator[ControlClient]:
    register = Register("w1", "127.0.0.1", os.getpid(), 2, __version__)
    handlers = ClientHandlers(lambda: register, ([] if told is None else told).append, lambda _: None)
    client = ControlClient(CoordinatorAccess(server.address, TOKEN, tls), CONTROL_TIMES, handlers)
    client.start()
    try:
        yield client
    finally:
        client.close(0)


def test_a_worker_of_the_same_authority_joins(files: TlsFiles, authority: Authority) -> None:
    told: list[ToWorker] = []
    with ServerInThread(tls=files) as server, worker(server, tls_files_of(authority, "worker"), told):
        wait_until(lambda: bool(server.connected()), "it joins")
        server.send("w1", KillSlot("a"))
        wait_until(lambda: told == [KillSlot("a")], "it hears")


def trouble(server: ServerInThread, tls: TlsFiles | None, words: str) -> str:
    """What a worker says of the coordinator, once that holds these words."""
    with worker(server, tls) as client:
        wait_until(lambda: words in client.trouble, f"it says {words!r}", seconds=60)
        assert not server.events
        return client.trouble


def test_a_worker_of_another_authority_does_not(files: TlsFiles, tmp_path: Path) -> None:
    stranger = tls_files_of(Authority(tmp_path, "strange"), "stranger")
    with ServerInThread(tls=files) as server:
        assert str(stranger.ca) in trouble(server, stranger, "is not valid here")
        # it trusts the coordinator, and is not trusted
        trouble(server, replace(stranger, ca=files.ca), "does not accept the certificate")


def test_a_worker_whose_certificate_has_expired_does_not(files: TlsFiles, authority: Authority) -> None:
    with ServerInThread(tls=files) as server:
        trouble(server, tls_files_of(authority, "old", lasts=-DAY / 2), "does not accept the certificate")


def test_a_coordinator_under_another_name_than_its_certificates_is_not_obeyed(authority: Authority) -> None:
    with ServerInThread(tls=tls_files_of(authority, "elsewhere", host="elsewhere.example")) as server:
        trouble(server, tls_files_of(authority, "worker"), "is not valid here")


def test_a_worker_without_tls_is_told_of_the_flags(files: TlsFiles) -> None:
    with ServerInThread(tls=files) as server:
        assert "--tls-cert" in trouble(server, None, "it speaks TLS")


def test_a_coordinator_without_tls_is_told_of(files: TlsFiles) -> None:
    with ServerInThread() as server:
        assert "--tls-cert" in trouble(server, files, "it speaks no TLS")
