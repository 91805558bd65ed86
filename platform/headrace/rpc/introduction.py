"""How worker and coordinator prove to each other, at the start of a stream, that they know the cluster's token.

    coordinator  its nonce
    worker       Register, with its nonce and its proof
    coordinator  Registered with its proof, or Refused

Neither sends the token. The worker proves first: a stranger that dials gets no proof to try tokens on.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from headrace.core.network.mutual_proof import NONCE_BYTES, MutualProof, Role
from headrace.rpc.v1 import control_pb2

_PROTOCOL = "headrace control 1"


def terms_of(first: control_pb2.WorkerFrame, coordinator_nonce: bytes) -> MutualProof:
    """What both prove. first: the worker's first frame, with Register."""
    facts = (first.message.register.worker, first.session)
    return MutualProof(_PROTOCOL, facts, caller_nonce=first.nonce, callee_nonce=coordinator_nonce)


@dataclass(slots=True)
class Introduction:
    """The worker's side of one stream.

    first  its first frame, with Register; to be sent once it has the proof
    terms  what both prove, once the coordinator's nonce has come
    proven whether the coordinator has proven itself
    """

    first: control_pb2.WorkerFrame
    token: str = field(repr=False)
    terms: MutualProof | None = None
    proven: bool = False

    def answer(self, frame: control_pb2.CoordinatorFrame) -> bool:
        """Takes the coordinator's first frame. Gives whether it was one: `first` may be sent then."""
        if len(frame.nonce) != NONCE_BYTES:
            return False
        self.first.nonce = secrets.token_bytes(NONCE_BYTES)
        self.terms = terms_of(self.first, frame.nonce)
        self.first.proof = self.terms.proof(self.token, Role.CALLER)
        return True

    def is_proven_by(self, frame: control_pb2.CoordinatorFrame) -> bool:
        """Takes note of a proof. Gives whether the frame's sender knows the token."""
        self.proven = self.terms is not None and self.terms.accepts(self.token, Role.CALLEE, frame.proof)
        return self.proven
