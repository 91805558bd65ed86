"""Problems in a part of a pipeline, before their position in a file is known.

A `Finding` holds the path from the top of the pipeline (or of the part that was read); `FindingsError` carries findings
out of a reader, also through pydantic validators. The loader maps paths to file positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem: path, message and remedy. `on_key`: the last key of the path itself is wrong."""

    message: str
    remedy: str | None = None
    path: Path = ()
    on_key: bool = False

    def under(self, *prefix: str) -> Finding:
        """The same finding with a longer path, relative to an enclosing part."""
        return replace(self, path=(*prefix, *self.path))


class FindingsError(ValueError):
    """Raised by a reader that fails: one or more findings, with paths relative to the reader's input."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        assert findings, "there is something wrong"
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = tuple(findings)


def wrong(message: str, remedy: str | None = None, *path: str, on_key: bool = False) -> FindingsError:
    """A `FindingsError` with one finding."""
    return FindingsError([Finding(message, remedy, path, on_key)])


@contextmanager
def collecting(findings: list[Finding], *prefix: str) -> Iterator[None]:
    """Collects a block's findings into `findings`, under `prefix`, and continues after the block."""
    try:
        yield
    except FindingsError as found:
        findings.extend(finding.under(*prefix) for finding in found.findings)


def joined(*sentences: str | None) -> str | None:
    """Joins the sentences that are not None to one remedy."""
    text = ""
    for sentence in sentences:
        if sentence:
            text += f"{' ' if text.endswith('?') else '; ' if text else ''}{sentence}"
    return text or None
