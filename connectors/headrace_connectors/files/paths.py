"""The files of a source, their partitions, and the encoding of positions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.core.errors import UserError
from headrace.core.files.matching_files import has_pattern, matching_files

LINE_BITS = 40
"""A position is (file number within the partition << 40) | (line or row in the file), both from 0."""
_LINE_MASK = (1 << LINE_BITS) - 1


def source_files(pattern: str) -> list[Path]:
    """The file of this name, or those that the glob matches, sorted by name. Raises UserError if there are none."""
    found = matching_files(pattern)
    if not found:
        folder = Path(pattern).parent
        if not has_pattern(str(folder)) and not folder.is_dir():
            raise UserError(f"no file matches {pattern}: there is no folder {folder}", remedy="correct `path:`")
        raise UserError(
            f"no file matches {pattern}",
            remedy="correct `path:`: a file's name, or a pattern such as data/*.json or data/**/*.csv",
        )
    return found


def files_of(files: Sequence[Path], partition: int, partitions: int) -> Sequence[Path]:
    """The files of one partition: round robin in name order."""
    return files[partition::partitions]


_read_here: dict[tuple[str, int], tuple[Path, ...]] = {}
"""(glob, partition) -> its files as this process reads them; one entry per assigned partition."""


def note_files(pattern: str, partition: int, files: tuple[Path, ...]) -> None:
    """Records the files of a partition, whatever the glob matches later."""
    _read_here[pattern, partition] = files


def noted_files(pattern: str, partition: int, partitions: int) -> Sequence[Path]:
    """The files of a partition, for messages: the recorded ones, or else the glob's current matches."""
    noted = _read_here.get((pattern, partition))
    return files_of(source_files(pattern), partition, partitions) if noted is None else noted


def position_of(file: int, line: int) -> int:
    """The position of a line of a partition's file."""
    return file << LINE_BITS | line


def place_of(position: int) -> tuple[int, int]:
    """File number within the partition, and line, both from 0."""
    return position >> LINE_BITS, position & _LINE_MASK
