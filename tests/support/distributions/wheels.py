"""Wheels of installed distributions, packed again from their files: so an image is built without a package index."""

from __future__ import annotations

import csv
import io
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

_OF_THE_INSTALLER = {"INSTALLER", "REQUESTED", "direct_url.json"}
"""Files that pip adds to those of the wheel."""


def write_wheel(distribution: metadata.Distribution, folder: Path) -> Path:
    """Writes the wheel of a distribution into a folder; returns its path.

    Files that were installed outside of the packages' folder, such as programs and manual pages, are left out: pip
    makes programs anew from their entry points.
    """
    path = folder / f"{_file_name(distribution)}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        kept = []
        for row in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
            if _is_of_the_wheel(PurePosixPath(row[0])):
                kept.append(row)
                if not row[0].endswith(".dist-info/RECORD"):
                    wheel.write(str(distribution.locate_file(row[0])), row[0])
        record = next(row[0] for row in kept if row[0].endswith(".dist-info/RECORD"))
        content = io.StringIO()
        csv.writer(content, lineterminator="\n").writerows(kept)
        wheel.writestr(record, content.getvalue())
    return path


def _is_of_the_wheel(path: PurePosixPath) -> bool:
    outside = path.is_absolute() or ".." in path.parts
    added = path.parent.suffix == ".dist-info" and path.name in _OF_THE_INSTALLER
    return not (outside or added or "__pycache__" in path.parts)


def _file_name(distribution: metadata.Distribution) -> str:
    lines = (distribution.read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag:").strip().split("-") for line in lines if line.startswith("Tag:")]
    compressed = (".".join(dict.fromkeys(tag[part] for tag in tags)) for part in range(3))
    name = distribution.metadata["Name"].replace("-", "_").replace(".", "_")
    return "-".join([name, distribution.version, *compressed])
