"""Stages what an application's containers are started with.

hadoop-conf        the client's *.xml, unpacked
environment        the Python environment, unpacked
<name>             files and archives of the description, and an application's program
application.json   the ApplicationMaster's description
keytab             the key table of `kerberos`, of the ApplicationMaster alone
job.sealed         the job, encrypted with the key of the ledger
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.coordinator.store.sealing import Sealer
from headrace.core.errors import UserError
from headrace.deployment.yarn.application import (
    APPLICATION_FILE,
    HADOOP_CONF_LINK,
    KEYTAB_LINK,
    REQUEST_FILE,
    ApplicationFile,
    ShippedFile,
    Work,
    WorkKind,
)
from headrace.deployment.yarn.cluster_spec import ENVIRONMENT_LINK, YarnCluster, YarnSpec
from headrace.yarn.records import ResourceKind, StagedFile
from headrace.yarn.staging import Staging

# ---- check of the Python environment: here it fails within a second, on the nodes after every attempt ----------------

ANSWER_SECONDS = 60.0
_NEEDED = ("headrace", "py4j")
_PACKAGE = re.compile(r"(?:^|/)lib/python(\d+\.\d+)/site-packages/([\w.]+)-([^/]+)\.dist-info(?:/|$)")
_PROGRAM = re.compile(r"^(?:\./)?bin/python\Z")
_ASK = "import importlib.metadata as m; import py4j; print(m.version('headrace'))"


def check_python(spec: YarnSpec, version: str) -> None:
    """Raises UserError for an environment without what containers run, or with another version of headrace than this.

    An archive in the cluster's storage, and an interpreter that this host does not have, are not checked here.
    """
    if spec.environment is not None and "://" not in spec.environment:
        check_archive(Path(spec.environment), version)
    elif spec.python is not None and Path(spec.python).exists():
        _check_program(spec.python, version)


def check_archive(archive: Path, version: str) -> None:
    """Checks an archive as venv-pack and conda-pack make them. Raises UserError."""
    names = list(_names(archive))
    if not any(_PROGRAM.match(name) for name in names):
        raise UserError(
            f"{archive} has no bin/python", remedy="make it with venv-pack or conda-pack, or set `python` in --config"
        )
    found = {match[2].lower(): match[3] for name in names if (match := _PACKAGE.search(name))}
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise UserError(
            f"{archive} has no {' and no '.join(missing)}",
            remedy="pip install 'headrace[yarn]' there, and pack it again",
        )
    _require_version(str(archive), found["headrace"], version)


def _check_program(program: str, version: str) -> None:
    try:
        answer = subprocess.run(
            [program, "-c", _ASK], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.strip().splitlines()[-1:] or ["no reason"]
        raise UserError(
            f"{program} cannot run headrace on YARN: {reason[0]}", remedy="pip install 'headrace[yarn]' there"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"{program} does not run: {error}", remedy="correct `python` in --config") from error
    _require_version(program, answer.stdout.strip(), version)


def _require_version(where: str, found: str, version: str) -> None:
    if found != version:
        raise UserError(
            f"{where} has headrace {found}, and this is {version}", remedy="use the same version at both places"
        )


def _names(archive: Path) -> Iterable[str]:
    """The names in an archive. Raises UserError."""
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as packed:
                return packed.namelist()
        with tarfile.open(archive) as packed:
            return packed.getnames()
    except (OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{archive} cannot be read: {error}", remedy="name a .tar.gz or .zip of a Python environment"
        ) from error


_RESERVED = {HADOOP_CONF_LINK, ENVIRONMENT_LINK, APPLICATION_FILE, REQUEST_FILE, "home", "tmp", KEYTAB_LINK}
_ARCHIVES = (".tar.gz", ".tgz", ".zip")


class Shipment:
    """One application's files. Everything else is deleted with the staging folder."""

    def __init__(self, staging: Staging, cluster: YarnCluster, work: Work, conf: Sequence[Path]) -> None:
        self._staging = staging
        self._cluster = cluster
        self._work = work
        self._conf = conf

    def ship(self, *, user: str, key_file: Path) -> tuple[StagedFile, ...]:
        """Uploads the files; returns those of the ApplicationMaster's container. Raises UserError, ExternalError."""
        with _scratch() as scratch:
            shared = tuple(self._shared(scratch))
            files = tuple(ShippedFile.of(each) for each in shared)
            application = ApplicationFile(
                name=self._cluster.name,
                ledger=self._cluster.ledger,
                spec=self._cluster.spec,
                files=files,
                staging=self._staging.url,
                user=user,
                work=self._work.kind,
                program=None if self._work.program is None else self._work.program.name,
            )
            described = scratch / APPLICATION_FILE
            described.write_text(application.model_dump_json(by_alias=True))
            own = [self._staging.upload(described, APPLICATION_FILE), *self._served(scratch, key_file)]
        return (*shared, *own)

    def _shared(self, scratch: Path) -> Iterator[StagedFile]:
        """The files of every container."""
        yield self._staging.upload(_packed_conf(self._conf, scratch), HADOOP_CONF_LINK, ResourceKind.ARCHIVE)
        spec = self._cluster.spec
        if spec.environment is not None:
            yield self._placed(spec.environment, ENVIRONMENT_LINK)
        for name, kind in linked(spec):
            link = link_of(name, kind)
            yield self._staging.upload(Path(name), link, kind)

    def _served(self, scratch: Path, key_file: Path) -> Iterator[StagedFile]:
        if self._work.kind is WorkKind.JOB:
            sealed = scratch / REQUEST_FILE
            sealed.write_text(Sealer(key_file).seal(self._work.request))
            yield self._staging.upload(sealed, REQUEST_FILE)
        if self._work.program is not None:
            yield self._staging.upload(self._work.program, self._work.program.name)
        if self._cluster.spec.kerberos is not None:
            yield self._staging.upload(Path(self._cluster.spec.kerberos.keytab), KEYTAB_LINK)

    def _placed(self, archive: str, link: str) -> StagedFile:
        if "://" in archive:
            return self._staging.given(archive, link, ResourceKind.ARCHIVE)
        return self._staging.upload(Path(archive), link, ResourceKind.ARCHIVE)


def linked(spec: YarnSpec) -> tuple[tuple[str, ResourceKind], ...]:
    """Files and archives of a description."""
    files = tuple((name, ResourceKind.FILE) for name in spec.files)
    return (*files, *((name, ResourceKind.ARCHIVE) for name in spec.archives))


def link_of(name: str, kind: ResourceKind) -> str:
    """The name in a container's folder: the file's, of an archive without its ending."""
    link = Path(name).name
    if kind is ResourceKind.ARCHIVE:
        link = next((link.removesuffix(end) for end in _ARCHIVES if link.endswith(end)), link)
    return link


def check_files(spec: YarnSpec, program: Path | None) -> None:
    """Raises UserError for files that are missing, or have a name that another one has."""
    if spec.kerberos is not None and not Path(spec.kerberos.keytab).is_file():
        raise UserError(f"there is no key table {spec.kerberos.keytab}", remedy="correct kerberos.keytab in --config")
    taken = set(_RESERVED)
    given = [*linked(spec), *([] if program is None else [(str(program), ResourceKind.FILE)])]
    for name, kind in given:
        link = link_of(name, kind)
        if not Path(name).is_file():
            raise UserError(f"{name} cannot be shipped: there is no such file", remedy="correct it in --config")
        if link in taken:
            raise UserError(f"{name} cannot be shipped as {link}: that name is taken", remedy="rename the file")
        taken.add(link)


def _packed_conf(folders: Iterable[Path], scratch: Path) -> Path:
    """The configuration of Hadoop's client as an archive. Of two files of a name the first folder's counts."""
    archive = scratch / f"{HADOOP_CONF_LINK}.tar.gz"
    named: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.xml")):
            named.setdefault(file.name, file)
    with tarfile.open(archive, "w:gz", dereference=True) as packed:
        for name, file in named.items():
            packed.add(file, arcname=name)
    return archive


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headrace-yarn-") as folder:
        yield Path(folder)
