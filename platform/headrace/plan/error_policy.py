"""What a node does with a row that fails, by its `on_error:`."""

from __future__ import annotations

from headrace.operators.operator import OnError
from headrace.spec.fields import DeadLetter, ErrorRule


def policy_of(rule: ErrorRule) -> OnError:
    """Returns the operator's policy: a dead letter is a diverted row, which a sink of its own receives."""
    return OnError.DIVERT if isinstance(rule, DeadLetter) else rule
