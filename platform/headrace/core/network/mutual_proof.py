"""Mutual proof of a shared key: each side shows that it knows the key, and neither sends it. Pure: callers draw nonces.

Each side sends a nonce and an HMAC-SHA256 over its role, the facts of the conversation, and both nonces. The role
prevents a proof from being reflected to its sender; the nonces prevent a recorded proof from being replayed.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import Enum

NONCE_BYTES = 32
PROOF_BYTES = 32


class Role(Enum):
    """The side that sends a proof: the client, which opened the connection, or the server."""

    CALLER = b"caller"
    CALLEE = b"callee"


@dataclass(frozen=True, slots=True)
class MutualProof:
    """One conversation, as both sides know it.

    protocol  name and version, so that a proof is not valid in another protocol
    facts     values that both sides must agree on, such as job and attempt
    """

    protocol: str
    facts: tuple[str, ...]
    caller_nonce: bytes
    callee_nonce: bytes

    def proof(self, key: str, role: Role) -> bytes:
        """The proof that the side with this role sends: PROOF_BYTES bytes."""
        parts = (role.value, self.protocol.encode(), self.caller_nonce, self.callee_nonce)
        message = b"".join(_with_length(part) for part in (*parts, *(fact.encode() for fact in self.facts)))
        return hmac.digest(key.encode(), message, "sha256")

    def accepts(self, key: str, role: Role, proof: bytes) -> bool:
        """Whether the proof is valid for the side with this role. Compares in constant time."""
        if len(self.caller_nonce) != NONCE_BYTES or len(self.callee_nonce) != NONCE_BYTES:
            return False
        return hmac.compare_digest(self.proof(key, role), proof)


def _with_length(part: bytes) -> bytes:
    # without lengths, ("ab", "c") and ("a", "bc") would be the same message
    return len(part).to_bytes(4, "big") + part


WHERE_A_TOKEN_LIES = "The token lies in $HEADRACE_HOME/cluster/token of the coordinator, or where its --token-file says"
