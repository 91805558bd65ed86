"""Two sides prove to each other that they know a key: what a proof holds for, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.network.mutual_proof import NONCE_BYTES, PROOF_BYTES, MutualProof, Role

TERMS = MutualProof("protocol 1", ("job", "1"), caller_nonce=b"a" * NONCE_BYTES, callee_nonce=b"b" * NONCE_BYTES)


@pytest.mark.parametrize("role", Role)
def test_a_proof_holds_for_its_key_role_and_terms(role: Role) -> None:
    proof = TERMS.proof("key", role)
    assert len(proof) == PROOF_BYTES
    assert TERMS.accepts("key", role, proof)


@pytest.mark.parametrize(
    "terms",
    [
        replace(TERMS, protocol="protocol 2"),
        replace(TERMS, facts=("job", "2")),
        replace(TERMS, facts=("job1",)),
        replace(TERMS, facts=("jo", "b1")),
        replace(TERMS, caller_nonce=b"c" * NONCE_BYTES),
        replace(TERMS, callee_nonce=b"c" * NONCE_BYTES),
        replace(TERMS, caller_nonce=TERMS.callee_nonce, callee_nonce=TERMS.caller_nonce),
    ],
)
def test_a_proof_holds_for_no_other_terms(terms: MutualProof) -> None:
    assert not terms.accepts("key", Role.CALLER, TERMS.proof("key", Role.CALLER))


def test_a_proof_that_is_sent_back_is_none() -> None:
    assert not TERMS.accepts("key", Role.CALLEE, TERMS.proof("key", Role.CALLER))
    assert not TERMS.accepts("key", Role.CALLER, TERMS.proof("key", Role.CALLEE))


def test_a_proof_with_another_key_is_none() -> None:
    assert not TERMS.accepts("key", Role.CALLER, TERMS.proof("", Role.CALLER))
    assert not TERMS.accepts("key", Role.CALLER, b"")


def test_a_short_nonce_is_not_accepted() -> None:
    terms = replace(TERMS, caller_nonce=b"")
    assert not terms.accepts("key", Role.CALLER, terms.proof("key", Role.CALLER))
