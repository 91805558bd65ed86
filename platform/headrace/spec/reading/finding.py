"""What is wrong with a piece of a pipeline, before anyone knows where in a file it stands.

A `Finding` holds the path from the top of the pipeline (or of the piece that was read); `Wrong` carries findings out of
a reader, through pydantic validators too. The loader turns paths into file positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong: a path, what, and how to put it right. `on_key`: the last key of the path itself is to blame."""

    message: str
    remedy: str | None = None
    path: Path = ()
    on_key: bool = False

    def under(self, *prefix: str) -> Finding:
        """The same finding seen from further up."""
        return replace(self, path=(*prefix, *self.path))


class Wrong(ValueError):  # noqa: N818 - it carries findings, it is not one error
    """A reader's way to give up: one or more findings, with paths relative to what it was given."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        assert findings, "there is something wrong"
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = tuple(findings)


def wrong(message: str, remedy: str | None = None, *path: str, on_key: bool = False) -> Wrong:
    """A `Wrong` of one finding."""
    return Wrong([Finding(message, remedy, path, on_key)])


@contextmanager
def collecting(findings: list[Finding], *prefix: str) -> Iterator[None]:
    """Takes what a block finds wrong into `findings`, under `prefix`, and goes on after the block."""
    try:
        yield
    except Wrong as found:
        findings.extend(finding.under(*prefix) for finding in found.findings)


def joined(*sentences: str | None) -> str | None:
    """Sentences that are there, as one remedy."""
    text = ""
    for sentence in sentences:
        if sentence:
            text += f"{' ' if text.endswith('?') else '; ' if text else ''}{sentence}"
    return text or None
