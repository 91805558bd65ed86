"""Errors of the coordinator's own shells as the machine and people are told of them."""

from __future__ import annotations

import traceback

from headrace.core.errors import Domain, ExternalError, HeadraceError, InternalError, UserError
from headrace.rpc.messages import Failure


def failure_of(error: BaseException) -> Failure:
    """An error as a message. What headrace did not raise on purpose is internal and carries its trace."""
    if isinstance(error, HeadraceError):
        return Failure(error.message, error.domain.value, retry=error.retry, remedy=error.remedy)
    trace = "".join(traceback.format_exception(error, limit=-8))
    text = f"{type(error).__name__}: {error}"
    return Failure(text, Domain.INTERNAL.value, retry=True, trace=trace)


def error_of(failure: Failure) -> HeadraceError:
    """A failure raised again, here."""
    match failure.domain:
        case Domain.USER.value:
            return UserError(failure.message, remedy=failure.remedy, retry=failure.retry)
        case Domain.EXTERNAL.value:
            return ExternalError(failure.message, remedy=failure.remedy, retry=failure.retry)
        case _:
            return InternalError(failure.message, remedy=failure.remedy, retry=failure.retry)
