"""Files that formats name travel with the pipeline: each content once, under its hash. Pure.

Who makes a submission reads them (`spec.reading.load_file`); a server that receives it opens none.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from headrace.connect.format import FormatConfig, ReadFile
from headrace.core.errors import UserError

FILES_MAX = 256
FILES_BYTES_MAX = 4 * 1024 * 1024
"""Limits of the files of one pipeline: every slot receives them."""


def travelled(files: Mapping[str, bytes]) -> ReadFile:
    """Reads files that came with a pipeline."""

    def read(name: str) -> bytes:
        if name not in files:
            raise UserError(
                f"the file {name} did not come with the pipeline",
                remedy="submit the pipeline file from where its files are; a server opens none",
            )
        return files[name]

    return read


def own_files(config: FormatConfig, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of one format, of all that came with its pipeline. Raises UserError if one is missing."""
    return dict(config.named_files(travelled(files)))


def collect(config: FormatConfig, read: ReadFile, known: dict[str, bytes]) -> None:
    """Adds the files of a format to `known`. Raises UserError for one that cannot be read, and beyond the limits."""
    known.update(config.named_files(read))
    size = sum(map(len, known.values()))
    if len(known) > FILES_MAX or size > FILES_BYTES_MAX:
        raise UserError(
            f"the files of the formats are {len(known)} with {size:,} bytes, and at most {FILES_MAX} with "
            f"{FILES_BYTES_MAX:,} bytes travel with a pipeline",
            remedy="name files with fewer types or imports",
        )


def file_hash(content: bytes) -> str:
    """The hash under which a content travels."""
    return sha256(content).hexdigest()


def files_form(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The form in a pipeline's file form: names to hashes, and hashes to contents in base64."""
    return {
        "names": {name: file_hash(content) for name, content in sorted(files.items())},
        "contents": {file_hash(content): base64.b64encode(content).decode() for content in files.values()},
    }


def files_of(form: object) -> dict[str, bytes]:
    """The inverse of `files_form`; of anything else, and of a content with another hash, nothing."""
    if not isinstance(form, Mapping):
        return {}
    names, contents = form.get("names"), form.get("contents")
    if not isinstance(names, Mapping) or not isinstance(contents, Mapping):
        return {}
    read = {str(name): _decoded(contents.get(hashed)) for name, hashed in names.items()}
    return {name: each for name, each in read.items() if each is not None and file_hash(each) == names[name]}


def _decoded(text: object) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except binascii.Error:
        return None
