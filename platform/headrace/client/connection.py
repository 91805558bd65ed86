"""The HTTP connection of a client to the coordinator that leads.

    request ──> an answer                                 ──> returned
            ──> 307 of a standby, with the leader's URL   ──> sent to that URL
            ──> no connection, or 503 of a standby        ──> locate the leader and retry, for a while
            ──> timeout of an idempotent request          ──> the same: the coordinator may be suspended

Only a cluster with an election has a leader to locate. A request that changes something is sent again only if no
coordinator can have handled it, or if it does no harm twice (a submission with a key). The token is sent to an address
that a coordinator of the cluster named, and to no other.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx

from headrace.core.errors import ExternalError, UnreachableError, UserError
from headrace.core.network.hosts import is_loopback
from headrace.core.retry import Backoff, Retries
from headrace.leadership.elector import LEADER_HEADER, Locator
from headrace.tls.checks import is_plain_answer, speaks_tls
from headrace.tls.contexts import client_context
from headrace.tls.files import CA_VARIABLE, NamedServer

CONNECT_SECONDS = 5.0
LEADERS_MAX = 4
"""How often one request is sent on to another coordinator."""
ELECTION_SECONDS_MAX = 60.0
"""How long a request waits for a leader: a lease, and the time until the next coordinator leads."""
ELECTED_ANSWER_SECONDS = 5.0
"""How long a GET waits for the answer of a leader that was elected: another one may lead by then."""
_ELECTION_BACKOFF = Backoff(first_s=0.1, max_s=1.0)
_STANDBY, _UNAVAILABLE = 307, 503


class Connection:
    """Requests to one cluster. Not thread-safe.

    url      of a coordinator; "" with a locator: the leader is found with the first request
    locator  finds the leader; None: there is only the coordinator at `url`, and those that it names
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        authority: Path | NamedServer | None = None,
        answer_s: float,
        locator: Locator | None = None,
    ) -> None:
        self._token = token
        self._authority = authority
        # the name that the certificate must hold instead of the address
        self._extensions = {"sni_hostname": authority.name} if isinstance(authority, NamedServer) else {}
        self._answer_s = answer_s
        self._locator = locator
        self.url = ""
        self._http: httpx.Client | None = None
        if url or locator is None:
            self._move(url)

    def close(self) -> None:
        """Closes its connections."""
        if self._http is not None:
            self._http.close()
        if self._locator is not None:
            self._locator.close()

    def request(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str], *, repeatable: bool
    ) -> httpx.Response:
        """Sends a request to the coordinator that leads; returns the answer. repeatable: it may be handled twice.

        Raises UnreachableError, ExternalError.
        """
        retries = Retries(_ELECTION_BACKOFF, ELECTION_SECONDS_MAX)
        moves = 0
        while True:
            try:
                http = self._http or self._located()
                response = http.request(
                    method,
                    path,
                    content=content,
                    headers=headers,
                    timeout=self._timeout(method),
                    extensions=self._extensions,
                )
            except httpx.HTTPError as error:
                handled_by_nobody = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if not ((handled_by_nobody or repeatable) and self._may_find_another(retries)):
                    raise self._unreachable(error) from error
            except ExternalError as error:
                # no leader, or no election: nothing was sent
                if not error.retry or not retries.pause():
                    raise
            else:
                leader = response.headers.get(LEADER_HEADER)
                if response.status_code == _STANDBY and leader and moves < LEADERS_MAX:
                    moves += 1
                    self._move(leader)
                elif not (_is_standby(response) and self._may_find_another(retries)):
                    return response

    def _timeout(self, method: str) -> httpx.Timeout:
        is_repeated = self._locator is not None and method == "GET"
        answer_s = min(self._answer_s, ELECTED_ANSWER_SECONDS) if is_repeated else self._answer_s
        return httpx.Timeout(answer_s, connect=CONNECT_SECONDS)

    def _may_find_another(self, retries: Retries) -> bool:
        """Whether the request should be sent again, to the leader of that time."""
        if self._locator is None or not retries.pause():
            return False
        if self._http is not None:
            self._http.close()
        self._http = None
        return True

    def _located(self) -> httpx.Client:
        """A client of the leader. Raises ExternalError."""
        leader = None if self._locator is None else self._locator.find()
        if leader is None:
            raise UnreachableError(
                "no coordinator leads this cluster", remedy="headrace coordinator --ha URL starts one"
            )
        return self._move(leader.url)

    def _move(self, url: str) -> httpx.Client:
        """Sends further requests to another coordinator."""
        if self._http is not None:
            self._http.close()
        self.url = url.rstrip("/")
        try:
            address = httpx.URL(self.url)
        except httpx.InvalidURL as error:
            raise UserError(f"{url!r} is no address: {error}", remedy="write http://HOST:PORT") from error
        if address.scheme not in {"http", "https"} or not address.host:
            raise UserError(f"{url!r} is no address of a coordinator", remedy="write http://HOST:PORT")
        self._http = httpx.Client(
            base_url=self.url,
            headers={} if self._token is None else {"Authorization": f"Bearer {self._token}"},
            trust_env=not is_loopback(address.host),  # a proxy cannot reach this host's loopback
            # loading the system's certificates costs more time than most requests, and plain HTTP needs none
            verify=client_context(self._authority)
            if address.scheme == "https"
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )
        return self._http

    def _unreachable(self, error: httpx.HTTPError) -> UnreachableError:
        return UnreachableError(
            f"no coordinator answers at {self.url}: {error or type(error).__name__}", remedy=self._remedy(error)
        )

    def _remedy(self, error: httpx.HTTPError) -> str:
        address = httpx.URL(self.url)
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return f"{CA_VARIABLE} names a file with the authority that signed its certificate"
        if is_plain_answer(str(error)):
            return "it speaks no TLS: write http://HOST:PORT"
        # a coordinator with TLS closes a plain connection
        closed = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError) and address.port is not None
        if closed and address.scheme == "http" and speaks_tls(address.host, address.port or 0):
            return f"it speaks TLS: write https://HOST:PORT, and name its authority in {CA_VARIABLE}"
        return "headrace cluster status shows this host's; --coordinator URL names another"


def _is_standby(response: httpx.Response) -> bool:
    return response.status_code == _UNAVAILABLE and LEADER_HEADER in response.headers
