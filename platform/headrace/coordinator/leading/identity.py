"""The id and the tokens of a cluster: the same for all runs, and for all coordinators that share its ledger.

a ledger in the home    <home>/cluster/{id,token,metrics-token}, or the token files that the user named
a shared ledger         the token files that the user named, else the ledger's tokens, else this home's;
                        what others do not have yet is put into the ledger, tokens encrypted
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.client.discovery import metrics_token_file, token_file
from headrace.client.token_files import ensure_token, read_token, required_token
from headrace.coordinator.leading.config import CoordinatorConfig
from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.store.job_store import ClusterTokens, JobStore
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, replace_file
from headrace.core.settings import Home


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """cluster: its id."""

    cluster: str
    tokens: Tokens


def read_identity(config: CoordinatorConfig, store: JobStore) -> Tokens | None:
    """The tokens as a standby reads them, which clients of this home find then; None: no coordinator has led yet.

    Writes nothing to the ledger. Raises ExternalError.
    """
    found = store.read_identity()
    if found is None:
        return None
    tokens = tokens_of(config, found.tokens)
    _keep_for_clients(config, tokens)
    return tokens


def taken_over_identity(
    config: CoordinatorConfig, store: JobStore, is_elected: Callable[[], bool] = lambda: True
) -> ClusterIdentity:
    """Takes the ledger over, and returns the identity, with which the ledger agrees then. is_elected: as
    `LedgerStore.take_over` has it. Raises UserError, ExternalError."""
    found = store.take_over(is_elected)
    tokens = tokens_of(config, None if found is None else found.tokens)
    cluster = _cluster_id(config.home / "cluster", None if found is None else found.cluster)
    kept = None if config.ledger is None else ClusterTokens(full=tokens.full, metrics=tokens.metrics)
    if found is None or (found.cluster, found.tokens) != (cluster, kept):
        store.save_identity(cluster, kept)
    if kept is not None:
        _keep_for_clients(config, tokens)
    return ClusterIdentity(cluster, tokens)


def tokens_of(config: CoordinatorConfig, shared: ClusterTokens | None = None) -> Tokens:
    """The tokens; shared: those of the shared ledger.

    A file named in the configuration must exist, because workers and clients use its token too. Raises UserError.
    """
    home = Home(config.home)
    return Tokens(
        _token(config.token_file, None if shared is None else shared.full, token_file(home)),
        _token(config.metrics_token_file, None if shared is None else shared.metrics, metrics_token_file(home)),
    )


def _token(named: Path | None, shared: str | None, own: Path) -> str:
    if named is not None:
        return required_token(named)
    return ensure_token(own) if shared is None else shared


def _keep_for_clients(config: CoordinatorConfig, tokens: Tokens) -> None:
    """Writes the shared tokens where clients of this home read them."""
    home = Home(config.home)
    make_private_folder(config.home / "cluster")
    for named, own, token in (
        (config.token_file, token_file(home), tokens.full),
        (config.metrics_token_file, metrics_token_file(home), tokens.metrics),
    ):
        if named is None and read_token(own) != token:
            replace_file(own, f"{token}\n".encode(), mode=PRIVATE_FILE, durable=True)


def _cluster_id(folder: Path, shared: str | None) -> str:
    make_private_folder(folder)
    file = folder / "id"
    own = file.read_text().strip() if file.exists() else None
    cluster = shared or own or secrets.token_hex(6)
    if cluster != own:
        replace_file(file, cluster.encode(), mode=PRIVATE_FILE)
    return cluster
