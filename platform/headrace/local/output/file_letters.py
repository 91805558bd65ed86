"""The dead letters of a pipeline file, read and resent by this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.client.output_models import DeadLetterList, DeadLettersRequest, Redriven, RedriveRequest
from headrace.coordinator.connector_host.pipeline_letters import PipelineLetters
from headrace.local.pipeline_file import load_file


class FileLetters:
    """Has the methods of a coordinator's client for dead letters."""

    def __init__(self, letters: PipelineLetters) -> None:
        """Made by `open`."""
        self._letters = letters

    @classmethod
    @contextmanager
    def open(cls, file: str, set_: Sequence[str]) -> Iterator[FileLetters]:
        """Opens the dead letters of FILE. Raises UserError, InvalidPipelineError."""
        with PipelineLetters(load_file(file, set_).pipeline) as letters:
            yield cls(letters)

    def letters(self, request: DeadLettersRequest) -> DeadLetterList:
        """Returns the newest ones. Raises HeadraceError."""
        return self._letters.newest(request.node, request.limit)

    def redrive(self, request: RedriveRequest) -> Redriven:
        """Resends the next ones. Raises HeadraceError."""
        return self._letters.resend(request.node, request.to, request.limit, do=request.yes)
