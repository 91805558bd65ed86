"""New delegation tokens for a cluster that runs, by the key table that was shipped to the ApplicationMaster.

A JVM of its own logs in, obtains tokens, and ends: that of the ApplicationMaster is known by the tokens that YARN has
given it, and must not become another user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.yarn.container import TOKEN_LOCATION
from headrace.yarn.delegation_tokens import ObtainedTokens, obtain_tokens
from headrace.yarn.java import find_hadoop_client
from headrace.yarn.jvm import JvmConfig, settings_for
from headrace.yarn.kerberos import KeytabLogin, log_in

ANSWER_SECONDS = 60.0
"""How long the JVM waits for a server that does not answer."""


@dataclass(frozen=True, slots=True)
class TokenSource:
    """urls: a place in each file system; folder: for the JVM's log; environment: of this process."""

    login: KeytabLogin
    urls: Sequence[str]
    folder: Path
    environment: Mapping[str, str]

    def obtain(self) -> ObtainedTokens:
        """Obtains tokens. Raises UserError, ExternalError."""
        # with the tokens of YARN, Hadoop's client would not ask for others
        own = {name: value for name, value in self.environment.items() if name != TOKEN_LOCATION}
        jvm = JvmConfig(find_hadoop_client(own), self.folder, own, settings_for(ANSWER_SECONDS)).open()
        try:
            log_in(jvm, self.login)
            return obtain_tokens(jvm, self.urls)
        finally:
            jvm.close()
