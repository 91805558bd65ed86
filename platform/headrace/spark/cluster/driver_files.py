"""Files between a driver on the cluster and the submitting host.

write_conf_folder   on the submitting host: writes Spark's configuration folder, with the user's own configuration.
                    spark-submit puts the folder's text files into a config map, so a pipeline and its modules need
                    no storage that both sides reach
unpack_files        in the driver
DriverEnd           the driver's exit code and output: one object in checkpoint storage, which the driver writes and
                    the submitting command reads
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.checkpoint.paths import joined, parted
from headrace.checkpoint.stores.opening import open_folder
from headrace.checkpoint.stores.store import ObjectNotFoundError
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import HeadraceError, UserError

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


TAIL_CHARACTERS = 200_000
"""Characters of the output that are kept, from its end."""


@dataclass(frozen=True, slots=True)
class DriverEnd:
    """Its exit code and its output."""

    code: int
    out: str = ""
    err: str = ""

    def keep(self, url: str) -> None:
        """Writes the object. Blocking. Raises HeadraceError."""
        folder, name = parted(url)
        kept = asdict(self) | {"out": self.out[-TAIL_CHARACTERS:], "err": self.err[-TAIL_CHARACTERS:]}
        open_folder(folder).write(name, json.dumps(kept).encode())

    @staticmethod
    def take(url: str) -> DriverEnd | None:
        """Reads and deletes the object. Returns None if there is none, or if it cannot be reached from here.
        Blocking.
        """
        folder, name = parted(url)
        try:
            store = open_folder(folder)
            end = DriverEnd(**json.loads(store.read(name)))
            store.delete([name])
        except (ObjectNotFoundError, HeadraceError, OSError, ValueError, TypeError):
            return None
        return end


def end_url(storage: str) -> str:
    """Returns a unique URL for the end of a driver that is about to start."""
    return joined(storage, f"driver-{unique_part()}.json")
