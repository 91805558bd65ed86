"""The mutual proof at the start of a stream: worker and coordinator prove that they know the cluster's token.

    coordinator  its nonce
    worker       Register, with its nonce and its proof
    coordinator  Registered with its proof, or Refused

Neither sends the token. The worker proves first, so a stranger that dials the coordinator receives no proof on which it
could try tokens offline.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from headrace.core.network.mutual_proof import NONCE_BYTES, MutualProof, Role
from headrace.rpc.v1 import control_pb2

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
