"""The staging folder: the files of an application's containers, in a file system that all nodes reach.

    <staging>/<application>/<link>    uploaded once; YARN refuses a file that changes afterwards

The folder is its owner's alone. The ApplicationMaster deletes it when it unregisters; `sweep` deletes those of
applications that were killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.yarn.client import YarnClient
from headrace.yarn.jvm import Jvm
from headrace.yarn.records import ResourceKind, StagedFile
from headrace.yarn.refusals import ApplicationNotFoundError, refusals

FOLDER = ".headraceStaging"
SWEPT_MAX = 100
"""Limit of the folders that one sweep inspects."""
_PRIVATE = 0o700


class Staging:
    """The staging folder of one application. base: URL, or None: `FOLDER` in the user's home in `fs.defaultFS`."""

    def __init__(self, jvm: Jvm, base: str | None, application: str) -> None:
        self._jvm = jvm
        self.url = f"{staging_base(jvm, base)}/{application}"

    def upload(self, source: Path, link: str, kind: ResourceKind = ResourceKind.FILE) -> StagedFile:
        """Copies a local file there, under a name of its own."""
        with refusals(self._jvm, f"the upload of {source}"):
            path, system = _located(self._jvm, self.url)
            permission = self._jvm.java.org.apache.hadoop.fs.permission.FsPermission
            system.mkdirs(path, permission(_PRIVATE))
            target = self._jvm.java.org.apache.hadoop.fs.Path(f"{self.url}/{link}{_suffix(source, kind)}")
            local = self._jvm.java.org.apache.hadoop.fs.Path(source.absolute().as_uri())
            system.copyFromLocalFile(False, True, local, target)  # noqa: FBT003 - Java
        return self.given(str(target.toString()), link, kind)

    def given(self, url: str, link: str, kind: ResourceKind = ResourceKind.FILE) -> StagedFile:
        """A file that is there already."""
        with refusals(self._jvm, f"the file {url}"):
            path, system = _located(self._jvm, url)
            status = system.getFileStatus(path)
            whole = str(system.makeQualified(path).toString())
            return StagedFile(link, whole, int(status.getLen()), int(status.getModificationTime()), kind)

    def delete(self) -> None:
        """Deletes the folder. Idempotent."""
        delete_folder(self._jvm, self.url)


def staging_base(jvm: Jvm, base: str | None) -> str:
    """The folder with the staging folders of this user."""
    if base is not None:
        return base.rstrip("/")
    with refusals(jvm, "the user's home"):
        system = jvm.java.org.apache.hadoop.fs.FileSystem.get(jvm.conf)
        return f"{system.getHomeDirectory().toString()}/{FOLDER}"


def delete_folder(jvm: Jvm, url: str) -> None:
    """Deletes a folder, if it is there."""
    with refusals(jvm, f"the deletion of {url}"):
        path, system = _located(jvm, url)
        system.delete(path, True)  # noqa: FBT003 - Java


def sweep(client: YarnClient, base: str | None, application: str) -> None:
    """Deletes the staging folders of applications that have ended, as after `yarn application -kill`.

    application: a new one. Its id begins as those of this run of the ResourceManager do: another cluster may use the
    same folder, and this one does not know its applications.
    """
    jvm = client.jvm
    own_run = application.rpartition("_")[0]
    for name in _names(jvm, staging_base(jvm, base))[:SWEPT_MAX]:
        if not is_live(client, name, if_unknown=not name.startswith(own_run)):
            Staging(jvm, base, name).delete()


def is_live(client: YarnClient, application: str, *, if_unknown: bool = False) -> bool:
    """Whether an application has not ended. if_unknown: of one that YARN does not know, or has forgotten."""
    try:
        return client.report(application).is_live
    except ApplicationNotFoundError:
        return if_unknown


def _names(jvm: Jvm, base: str) -> list[str]:
    """The applications with a staging folder."""
    with refusals(jvm, f"the list of {base}"):
        path, system = _located(jvm, base)
        if not system.exists(path):
            return []
        listed = system.listStatus(path)
        names = [str(listed[index].getPath().getName()) for index in range(len(listed))]
    return sorted(name for name in names if name.startswith("application_"))


def _located(jvm: Jvm, url: str) -> tuple[Any, Any]:
    path = jvm.java.org.apache.hadoop.fs.Path(url)
    return path, path.getFileSystem(jvm.conf)


def _suffix(source: Path, kind: ResourceKind) -> str:
    """The ending of an archive's name, by which nodes know how to unpack it."""
    if kind is ResourceKind.FILE:
        return ""
    return next((end for end in (".tar.gz", ".tgz", ".zip") if source.name.endswith(end)), "".join(source.suffixes))
