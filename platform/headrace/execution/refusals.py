"""User errors of several parts of a job, which are raised together, so that a user corrects all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core.errors import UserError


class Refusals:
    """Collects UserErrors; any other error passes at once, because the parts after it would only repeat it."""

    def __init__(self) -> None:
        self._errors: dict[str, UserError] = {}

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Keeps a UserError of the block. Equal ones (two nodes name one missing topic) are kept once."""
        try:
            yield
        except UserError as error:
            self._errors.setdefault(str(error), error)

    def raise_all(self) -> None:
        """Raises the collected error, or one UserError with all of them. Does nothing if there is none."""
        errors = list(self._errors.values())
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise UserError(f"{len(errors)} problems:\n" + "\n".join(str(error) for error in errors)) from errors[0]
