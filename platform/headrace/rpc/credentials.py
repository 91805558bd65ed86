"""How worker and coordinator authenticate each other: TLS, if the cluster has it, and the mutual proof of its token.

TLS: both sides present a certificate of the cluster's authority. gRPC compares the coordinator's certificate with the
address that the worker dials.

    coordinator  its nonce
    worker       Register, with its nonce and its proof
    coordinator  Registered with its proof, or Refused

Neither sends the token. The worker proves first, so a stranger that dials the coordinator receives no proof on which it
could try tokens offline.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import grpc

from headrace.core.network.mutual_proof import NONCE_BYTES, MutualProof, Role
from headrace.rpc.v1 import control_pb2
from headrace.tls.checks import handshake_trouble, is_plain_answer, speaks_tls
from headrace.tls.files import FileVersion, TlsFiles

LOG = logging.getLogger("headrace.tls")
_FLAGS = "--tls-cert, --tls-key and --tls-ca"


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """The credentials of the coordinator. It requires a certificate of each client, and takes over files that are
    replaced."""
    version = FileVersion(files)

    def replaced() -> grpc.ServerCertificateConfiguration | None:
        """Called at the beginning of each handshake; None: as before."""
        if not version.has_changed():
            return None
        try:
            return _configuration(files)
        except OSError as error:
            LOG.warning("the TLS files that replace the earlier ones cannot be read: %s", error)
            return None

    # its types leave out that None means: as before
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", replaced)
    return grpc.dynamic_ssl_server_credentials(_configuration(files), fetch, require_client_authentication=True)


def _configuration(files: TlsFiles) -> grpc.ServerCertificateConfiguration:
    pair = (files.key.read_bytes(), files.cert.read_bytes())
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=files.ca.read_bytes())


def channel_to(address: str, files: TlsFiles | None, options: tuple[tuple[str, int], ...]) -> grpc.Channel:
    """A worker's channel to the coordinator."""
    if files is None:
        return grpc.insecure_channel(address, options=options)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=files.ca.read_bytes(),
        private_key=files.key.read_bytes(),
        certificate_chain=files.cert.read_bytes(),
    )
    return grpc.secure_channel(address, credentials, options=options)


def diagnosis(address: str, files: TlsFiles | None, details: str) -> str:
    """Why a stream failed: gRPC's `details`, or a text with the remedy if TLS is the cause. Connects to find out."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "refused" in details:
        return details
    if files is None:
        tls = speaks_tls(host.strip("[]"), int(port))
        return f"it speaks TLS, and this worker does not: give it {_FLAGS}" if tls else details
    if is_plain_answer(details):
        return f"it speaks no TLS: give the coordinator {_FLAGS}, or take them from this worker"
    # gRPC's details do not contain the alert by which the coordinator rejects the worker's certificate
    return handshake_trouble(host.strip("[]"), int(port), files) or details


_PROTOCOL = "headrace control 1"


def terms_of(first: control_pb2.WorkerFrame, coordinator_nonce: bytes) -> MutualProof:
    """The facts that both sides include in their proofs. first: the worker's first frame, with Register."""
    facts = (first.message.register.worker, first.session)
    return MutualProof(_PROTOCOL, facts, caller_nonce=first.nonce, callee_nonce=coordinator_nonce)


@dataclass(slots=True)
class Introduction:
    """The worker's side of one stream.

    first  the worker's first frame, with Register; to be sent once it contains the proof
    terms  the terms of both proofs; None until the coordinator's nonce has arrived
    proven whether the coordinator has proven that it knows the token
    """

    first: control_pb2.WorkerFrame
    token: str = field(repr=False)
    terms: MutualProof | None = None
    proven: bool = False

    def answer(self, frame: control_pb2.CoordinatorFrame) -> bool:
        """Adds the worker's proof to `first` from the coordinator's first frame. Returns False if that has no nonce."""
        if len(frame.nonce) != NONCE_BYTES:
            return False
        self.first.nonce = secrets.token_bytes(NONCE_BYTES)
        self.terms = terms_of(self.first, frame.nonce)
        self.first.proof = self.terms.proof(self.token, Role.CALLER)
        return True

    def is_proven_by(self, frame: control_pb2.CoordinatorFrame) -> bool:
        """Checks the proof of a frame, sets `proven`, and returns whether the sender knows the token."""
        self.proven = self.terms is not None and self.terms.accepts(self.token, Role.CALLEE, frame.proof)
        return self.proven
