"""Files that a driver pod takes along in Spark's folder of configuration: spark-submit sends the text files of that
folder as a config map. So a pipeline and its modules need no storage that both sides reach.

    write_conf_folder   here: the folder, with the user's own configuration
    unpack_files        there
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
"""Where Spark mounts it, in every image."""
_BUNDLE = "headrace-driver-files"
_BYTES_MAX = 700_000
"""Of the text: a config map holds 1 MiB, with all that is in the folder."""


def write_conf_folder(folder: Path, own: Path | None, files: Mapping[str, bytes], application: Path) -> None:
    """Writes what a driver pod gets: what is in the user's `own` folder, the application, and files (path -> content)
    for the folder that it will work in. Raises UserError where it is too much."""
    folder.mkdir()
    for path in own.iterdir() if own is not None else ():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in files.items():
            archive.writestr(name, each)
    text = base64.encodebytes(content.getvalue())
    if len(text) > _BYTES_MAX:
        raise UserError(
            f"the pipeline and the modules beside it are {len(text):,} bytes, packed: too much for a driver pod",
            remedy="put the modules into the image, or give them by --py-files and spark.kubernetes.file.upload.path",
        )
    (folder / _BUNDLE).write_bytes(text)
    shutil.copyfile(application, folder / application.name)


def unpack_files() -> Path | None:
    """In a driver: writes the files into the folder it works in; that folder. None: it took none along."""
    bundle = Path(os.environ.get("SPARK_CONF_DIR", CONF_THERE)) / _BUNDLE
    if not bundle.is_file():
        return None
    folder = Path.cwd()
    with zipfile.ZipFile(io.BytesIO(base64.decodebytes(bundle.read_bytes()))) as archive:
        archive.extractall(folder)
    return folder
