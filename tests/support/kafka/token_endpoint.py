"""An identity provider for tests: an HTTP server on loopback that issues unsigned tokens by client credentials."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace_connectors.kafka.clients.access_tokens import unsecured_token
from support.certificates import Issued

CLIENT_ID, CLIENT_SECRET = "headrace-job", "t0ps3cret"
SCOPE = "kafka"


@dataclass(slots=True)
class TokenEndpoint:
    """`life_s` of the next tokens; `issued` says to whom (user agents) they went, in order."""

    port: int = 0
    scheme: str = "http"
    life_s: float = 3_600.0
    principal: str = "ann"
    fail_with: int = 0
    issued: list[str] = field(default_factory=list)
    refused: int = 0

    @property
    def url(self) -> str:
        """For `sasl.oauthbearer.token.endpoint.url`."""
        return f"{self.scheme}://127.0.0.1:{self.port}/token"

    def properties(self, secret: str = CLIENT_SECRET) -> dict[str, str]:
        """What a pipeline writes to log in with its tokens."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.scope": SCOPE,
        }

    def by_librdkafka(self) -> int:
        """Tokens that went to librdkafka's clients; the others went to the committer's."""
        return len(self.issued) - self.by_committer()

    def by_committer(self) -> int:
        """Tokens that went to the committer's client."""
        return sum("Python" in agent for agent in self.issued)


@contextmanager
def token_endpoint(identity: Issued | None = None) -> Iterator[TokenEndpoint]:
    """A running one; by https where it has a certificate."""
    state = TokenEndpoint(scheme="http" if identity is None else "https")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            code, answer = _answer(state, self.headers.get("Authorization", ""), form)
            if code == 200:
                state.issued.append(self.headers.get("User-Agent", ""))
            content = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its parent's
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(state: TokenEndpoint, login: str, form: dict[str, list[str]]) -> tuple[int, dict[str, object]]:
    if state.fail_with:
        return state.fail_with, {"error": "temporarily_unavailable"}
    expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
    if login != f"Basic {expected}" or form != {"grant_type": ["client_credentials"], "scope": [SCOPE]}:
        state.refused += 1
        return 401, {"error": "invalid_client"}
    now = time.time()
    claims = {"sub": state.principal, "iat": int(now), "exp": int(now + state.life_s), "scope": SCOPE}
    return 200, {"access_token": unsecured_token(claims), "token_type": "Bearer"}
