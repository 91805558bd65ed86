"""Files that travel to a driver pod in Spark's configuration folder: spark-submit puts the folder's text files into a
config map, so a pipeline and its modules need no storage that both sides reach.

    write_conf_folder   on the submitting host: writes the folder, with the user's own configuration
    unpack_files        in the driver
"""

from __future__ import annotations

import base64
import io
import os
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

from headrace.core.errors import UserError

CONF_THERE = "/opt/spark/conf"
"""Spark's mount point of the folder, in every image."""
_BUNDLE = "headrace-driver-files"
_BYTES_MAX = 700_000
"""Limit of the encoded files: a config map holds 1 MiB, for the whole folder."""


def write_conf_folder(folder: Path, own: Path | None, files: Mapping[str, bytes], application: Path) -> None:
    """Writes the configuration folder of a driver pod: the content of the user's `own` folder, the application, and
    files (path -> content) for the driver's working folder. Raises UserError if it is too large.
    """
    folder.mkdir()
    for path in own.iterdir() if own is not None else ():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in files.items():
            archive.writestr(name, each)
    # as text: spark-submit sends only text files of that folder
    text = base64.encodebytes(content.getvalue())
    if len(text) > _BYTES_MAX:
        raise UserError(
            f"the pipeline and the modules beside it are {len(text):,} bytes, packed: too much for a driver pod",
            remedy="put the modules into the image, or give them by --py-files and spark.kubernetes.file.upload.path",
        )
    (folder / _BUNDLE).write_bytes(text)
    shutil.copyfile(application, folder / application.name)


def unpack_files() -> Path | None:
    """In a driver: writes the files into its working folder. Returns that folder, or None if the pod has no files."""
    bundle = Path(os.environ.get("SPARK_CONF_DIR", CONF_THERE)) / _BUNDLE
    if not bundle.is_file():
        return None
    folder = Path.cwd()
    with zipfile.ZipFile(io.BytesIO(base64.decodebytes(bundle.read_bytes()))) as archive:
        archive.extractall(folder)
    return folder
