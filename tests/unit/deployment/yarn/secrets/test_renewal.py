"""When tokens of a cluster on YARN are renewed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.core.retry import Backoff
from headrace.deployment.yarn.secrets import renewal
from headrace.deployment.yarn.secrets.renewal import CERTIFICATES_LOOK_SECONDS, SecretRenewal, wait_seconds
from headrace.deployment.yarn.secrets.token_source import TokenSource
from headrace.deployment.yarn.secrets.worker_credentials import WorkerCredentials
from headrace.yarn.delegation_tokens import ObtainedTokens
from headrace.yarn.kerberos import KeytabLogin
from support.processes.running import wait_until


@pytest.mark.parametrize(
    ("until_ms", "expected_s"),
    [(101_000, 75.0), (1_000, 0.0), (500, 0.0), (None, CERTIFICATES_LOOK_SECONDS)],
)
def test_tokens_are_used_for_three_quarters_of_their_time(until_ms: int | None, expected_s: float) -> None:
    assert wait_seconds(1_000, until_ms) == expected_s


@dataclass(frozen=True, slots=True)
class BreakingSource(TokenSource):
    """A source of tokens whose second call ends in an unexpected error, as a library's may."""

    at: list[int] = field(default_factory=list)

    def obtain(self) -> ObtainedTokens:
        self.at.append(1)
        if len(self.at) == 2:
            raise KeyError("an answer without a field")
        return ObtainedTokens(storage=b"tokens", until_ms=0, ends_ms=None)


def test_an_unexpected_error_does_not_end_the_renewal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "BACKOFF", Backoff(first_s=0.001, max_s=0.001))
    source = BreakingSource(KeytabLogin("user", tmp_path / "user.keytab"), (), tmp_path, {})
    renews = SecretRenewal(
        source,
        None,
        credentials=WorkerCredentials({}, None),
        nodes=list,
        host="here",
        folder=tmp_path,
    )
    renews.start()
    try:
        wait_until(lambda: len(source.at) >= 3, "tokens are obtained after the error")
    finally:
        renews.close()
