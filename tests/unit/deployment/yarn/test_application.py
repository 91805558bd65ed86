"""What containers are started with, and how an application ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import ExternalError, UserError
from headrace.deployment.yarn.application import (
    APPLICATION_FILE,
    ApplicationFile,
    ShippedFile,
    WorkKind,
    master_launch,
    read_application_file,
    worker_launch,
)
from headrace.deployment.yarn.application_master import (
    attendant_command,
    coordinator_config,
    final_status,
    worker_secrets,
)
from headrace.deployment.yarn.cluster_spec import YarnSpec
from headrace.deployment.yarn.shipping import check_files
from headrace.leadership.published_leader import published_url
from headrace.resources.driver import ResourceTarget
from headrace.resources.worker_order import WorkerOrder
from headrace.tls.files import TlsFiles
from headrace.yarn.records import FinalStatus, ResourceKind, StagedFile

SPEC = YarnSpec(ledger="/shared", python="/opt/python", env={"A": "b"}, checkpoints="s3://bucket/c")
FILE = StagedFile("lib.zip", "file:///staging/lib.zip", 12, 34, ResourceKind.ARCHIVE)


def application(work: WorkKind = WorkKind.SESSION, program: str | None = None) -> ApplicationFile:
    return ApplicationFile(
        name="flights",
        ledger="/shared",
        spec=SPEC,
        files=(ShippedFile.of(FILE),),
        staging="file:///staging",
        user="alice",
        work=work,
        program=program,
    )


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = application(WorkKind.PROGRAM, "app.py")
    file = tmp_path / APPLICATION_FILE
    file.write_text(written.model_dump_json(by_alias=True))
    assert read_application_file(file) == written
    file.write_text("{}")
    with pytest.raises(ExternalError, match="does not describe an application"):
        read_application_file(file)


def test_a_worker_listens_at_its_node_and_reads_its_own_token() -> None:
    order = WorkerOrder("ledger+file:///shared", 2, "127.0.0.1", Path("of/the/coordinator"), orphan_ms=600_000)
    launch = worker_launch(application(), order, "w3-1")
    line = " ".join(launch.command)
    assert line.startswith("/opt/python -m headrace.yarn.container headrace headrace-worker --id w3-1")
    assert "--slots 2" in line
    assert "--token-file home/secrets/token" in line
    assert "--reconnect-for 600000ms" in line
    assert line.endswith("--host $NM_HOST")
    assert launch.files == (FILE,)
    assert launch.environment["HADOOP_USER_NAME"] == "alice"
    assert launch.environment["A"] == "b"


def test_the_coordinator_listens_where_yarn_names_its_node() -> None:
    config = coordinator_config(application(), {"NM_HOST": "node7"})
    assert (config.host, config.election) == ("node7", None)
    assert config.ledger is not None
    assert (config.ledger.url, config.ledger.checkpoints) == ("/shared", "s3://bucket/c")
    assert config.resources is not None
    assert config.resources.target is ResourceTarget.YARN
    assert config.resources.worker_address == published_url("/shared")
    assert "headrace-coordinator" in master_launch(SPEC, (), "alice").command


def test_only_clusters_of_their_own_have_an_attendant() -> None:
    assert attendant_command(application()) is None
    job = attendant_command(application(WorkKind.JOB))
    assert job is not None
    assert "--request" in job
    program = attendant_command(application(WorkKind.PROGRAM, "app.py"))
    assert program is not None
    assert program[program.index("--program") + 1] == "app.py"


def test_a_worker_with_tls_has_its_own_files() -> None:
    files = TlsFiles(Path("/c/tls.crt"), Path("/c/tls.key"), Path("/c/ca.crt"))
    launch = worker_launch(application(), WorkerOrder("ledger+file:///shared", 2, tls=files), "w3-1")
    assert "--tls-cert home/secrets/tls.crt" in " ".join(launch.command)


def test_workers_do_not_get_the_keys_of_the_ledger_and_of_the_authority() -> None:
    names = (b"token", b"key", b"ca.crt", b"ca.key")
    aliases = (*(b"headrace.file." + name for name in names), b"headrace.variable.PASSWORD", b"other")
    pairs = b"".join(bytes([len(alias)]) + alias + b"\x01x" for alias in aliases)
    found = worker_secrets(b"HDTS\0\0" + bytes([len(aliases)]) + pairs)
    assert set(found) == {"headrace.file.token", "headrace.file.ca.crt", "headrace.variable.PASSWORD"}


@pytest.mark.parametrize(
    ("attended", "is_shut_down", "work", "expected"),
    [
        (None, False, WorkKind.SESSION, None),
        (None, True, WorkKind.SESSION, FinalStatus.SUCCEEDED),
        (None, True, WorkKind.JOB, FinalStatus.KILLED),
        (FinalStatus.FAILED, False, WorkKind.JOB, FinalStatus.FAILED),
        (FinalStatus.SUCCEEDED, True, WorkKind.PROGRAM, FinalStatus.SUCCEEDED),
    ],
)
def test_the_final_status(
    attended: FinalStatus | None,
    is_shut_down: bool,
    work: WorkKind,
    expected: FinalStatus | None,
) -> None:
    assert final_status(attended, work, is_shut_down=is_shut_down) is expected


def test_files_that_cannot_be_shipped_are_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    (tmp_path / "lib.zip").write_text("")
    check_files(YarnSpec(ledger="/l", python="p", archives=[str(tmp_path / "lib.zip")]), None)
    for files, said in (
        (["none.txt"], "there is no such file"),
        ([str(tmp_path / "home")], "that name is taken"),
        ([str(tmp_path / "lib.zip")] * 2, "that name is taken"),
    ):
        with pytest.raises(UserError, match=said):
            check_files(YarnSpec(ledger="/l", python="p", files=files), None)
