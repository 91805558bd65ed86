"""A certificate of a cluster: issued, used by processes as it is, and replaced while they run."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest

from headrace.core.errors import UserError
from headrace.rpc.credentials import server_credentials
from headrace.tls.checks import check
from headrace.tls.contexts import client_context, fingerprint, own_fingerprint, peer_context, rest_context
from headrace.tls.files import CA_VARIABLE, NAME_VARIABLE, NamedServer, TlsFiles, named_authority
from headrace.tls.issuing import CERTIFICATE_LASTS, RENEWED_BEFORE_END, KeyPair, is_due, issued, new_authority
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until

NOW = datetime.now(UTC)
NAMES = ("flights.data.svc", "localhost", "127.0.0.1")
AUTHORITY = new_authority("flights.data", NOW)
LOOPBACK = "127.0.0.1"


def write(folder: Path, pair: KeyPair) -> TlsFiles:
    """Replaces the files of a process as a whole, as a mounted Secret does: a link moves to another folder."""
    version = folder / f"v{len(list(folder.iterdir()))}"
    version.mkdir()
    (version / "tls.crt").write_text(pair.certificate)
    (version / "tls.key").write_text(pair.key)
    (version / "tls.key").chmod(0o600)
    (version / "ca.crt").write_text(AUTHORITY.certificate)
    (folder / "next").symlink_to(version.name)
    (folder / "next").replace(folder / "now")
    return TlsFiles(folder / "now/tls.crt", folder / "now/tls.key", folder / "now/ca.crt")


def test_what_is_issued_is_what_processes_need(tmp_path: Path) -> None:
    check(write(tmp_path, issued(AUTHORITY, NAMES, NOW)))


def test_a_certificate_is_due_before_its_end_or_for_other_names() -> None:
    certificate = issued(AUTHORITY, NAMES, NOW).certificate
    last = NOW + CERTIFICATE_LASTS - RENEWED_BEFORE_END
    assert not is_due(certificate, NAMES, NOW)
    assert not is_due(certificate, NAMES[:1], last - timedelta(minutes=1))
    assert is_due(certificate, NAMES, last + timedelta(minutes=1))
    assert is_due(certificate, ("other.data.svc",), NOW)


@contextmanager
def plain_server(files: TlsFiles) -> Iterator[int]:
    """Shakes hands with whoever calls, by the context of the REST API."""
    context = rest_context(files)

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, closing(context.wrap_socket(connection, server_side=True)):
                pass

    with socket.create_server((LOOPBACK, 0)) as listening:
        thread = threading.Thread(target=serve, args=[listening])
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def control_server(files: TlsFiles) -> Iterator[int]:
    """A server of gRPC with the credentials of the control plane."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_secure_port(f"{LOOPBACK}:0", server_credentials(files))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait(WAIT_SECONDS)


def presented(port: int, context: ssl.SSLContext) -> str:
    """The fingerprint of the certificate that a server presents."""
    with (
        socket.create_connection((LOOPBACK, port), WAIT_SECONDS) as sock,
        context.wrap_socket(sock, server_hostname=NAMES[0]) as secure,
    ):
        certificate = secure.getpeercert(binary_form=True)
        assert certificate is not None
        return fingerprint(certificate)


@pytest.mark.parametrize("serving", [plain_server, control_server])
def test_a_server_takes_over_what_replaces_its_files(
    tmp_path: Path, serving: Callable[[TlsFiles], Iterator[int]]
) -> None:
    files = write(tmp_path, issued(AUTHORITY, NAMES, NOW))
    # callers are other processes, with files that stay
    context = peer_context(write(tmp_path, issued(AUTHORITY, NAMES, NOW)))
    with serving(files) as port:  # type: ignore[attr-defined]
        assert presented(port, context) == own_fingerprint(files)
        for _ in range(2):
            before = own_fingerprint(files)
            write(tmp_path, issued(AUTHORITY, NAMES, NOW))
            after = own_fingerprint(files)
            assert after != before
            wait_until(lambda wanted=after: presented(port, context) == wanted, "it presents the new one")  # type: ignore[misc]
        # files that do not work change nothing
        broken = issued(AUTHORITY, NAMES, NOW)
        write(tmp_path, KeyPair(broken.certificate, "no key"))
        assert [presented(port, context) for _ in range(3)] == [after] * 3


def test_a_client_knows_a_server_by_its_name_at_any_address(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    files = write(tmp_path / "files", issued(AUTHORITY, NAMES[:1], NOW))
    (tmp_path / "ca.pem").write_text(AUTHORITY.certificate)
    environment = {CA_VARIABLE: str(tmp_path / "ca.pem"), NAME_VARIABLE: NAMES[0]}
    server = named_authority(environment)
    assert server == NamedServer(AUTHORITY.certificate, NAMES[0])
    with plain_server(files) as port:
        assert presented(port, client_context(server)) == own_fingerprint(files)
    assert named_authority({CA_VARIABLE: str(tmp_path / "ca.pem")}) == tmp_path / "ca.pem"
    assert named_authority({NAME_VARIABLE: NAMES[0]}) is None
    with pytest.raises(UserError, match="cannot be read"):
        named_authority(environment | {CA_VARIABLE: str(tmp_path / "none.pem")})
    with pytest.raises(UserError, match="holds no certificate"):
        client_context(NamedServer("nothing", NAMES[0]))
