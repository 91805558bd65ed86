"""Opens the store of a URL.

file:///folder, /folder    `file`: link(2) is the put-if-absent
s3://bucket/prefix         `s3`: If-None-Match is the put-if-absent
hdfs://, webhdfs://, ..    `hdfs`: rename without overwrite is the put-if-absent
any other scheme           `fsspec_folder`: for savepoints only: it has no reliable put-if-absent
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.checkpoint.paths import absolute, parted
from headrace.checkpoint.stores.store import ObjectStore
from headrace.core.errors import UserError

_CONDITIONAL = frozenset({"file", "s3", "hdfs", "webhdfs", "swebhdfs"})


OpenFolder = Callable[[str], ObjectStore]
"""Opens the folder of a URL."""


def open_store(url: str) -> ObjectStore:
    """The store of a URL, or of a path on this host, that can hold checkpoints. Creates nothing.

    Raises UserError for a scheme without a conditional put.
    """
    if _scheme(url) in _CONDITIONAL:
        return open_folder(url)
    raise UserError(
        f"checkpoints cannot be kept at {url}: that scheme has no put-if-absent that is known to hold",
        remedy="use a folder (a path or file://..), s3://bucket/prefix or hdfs://namenode/path for checkpoints",
    )


def open_folder(url: str) -> ObjectStore:
    """The store of any URL that fsspec supports, or of a path on this host: sufficient for savepoints."""
    match _scheme(url):
        case "file":
            from headrace.checkpoint.stores.file import FileStore

            return FileStore(absolute(url))
        case "s3":
            from headrace.checkpoint.stores.s3 import S3Store

            return S3Store(url)
        case "hdfs" | "webhdfs" | "swebhdfs":
            from headrace.checkpoint.stores.hdfs import HdfsStore

            return HdfsStore(url)
        case _:
            from headrace.checkpoint.stores.fsspec_folder import ForeignStore

            return ForeignStore(url)


def read_url(url: str) -> bytes:
    """One object by its URL or path, of any scheme that fsspec supports. Raises ObjectNotFoundError."""
    folder, name = parted(absolute(url))
    return open_folder(folder).read(name)


def read_url_range(url: str, offset: int, *, length: int) -> bytes:
    """A part of one object by its URL or path; shorter if the object ends before. Raises ObjectNotFoundError."""
    folder, name = parted(absolute(url))
    return open_folder(folder).read_range(name, offset, length=length)


def _scheme(url: str) -> str:
    return url.partition("://")[0] if "://" in url else "file"
