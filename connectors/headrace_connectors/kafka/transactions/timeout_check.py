"""Checks before the first row that the brokers allow a sink's transaction timeout."""

from __future__ import annotations

from headrace.core.errors import UserError
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.transactions.txn_admin import TxnAdmin


def require_timeout_allowed(config: KafkaSinkSettings) -> None:
    """Raises UserError if `transaction_timeout` exceeds a broker's maximum, ExternalError if none answers.

    If the brokers deny access to the setting, the check passes: the writer raises the error when it opens.
    """
    admin = TxnAdmin(config.brokers, config.properties)
    try:
        allowed_ms = admin.timeout_max_ms()
    finally:
        admin.close()
    if allowed_ms is not None and config.transaction_timeout_ms > allowed_ms:
        raise UserError(
            f"transaction_timeout is {config.transaction_timeout_ms} ms, but Kafka at {config.brokers} allows "
            f"{allowed_ms} ms at most",
            remedy=f"write transaction_timeout: {allowed_ms}ms or less, "
            "or raise transaction.max.timeout.ms of every broker",
        )
