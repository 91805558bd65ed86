"""What of a driver pod comes back to the command that sent it, and what it is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from headrace.cli.spark.driver import driver_files, not_submitted, print_end
from headrace.spark.cluster.kubernetes_pods import PodStatus
from headrace.spec.reading.read import pipeline_from_dict

LOG = "kubectl logs one"


def ended(code: int, message: str) -> PodStatus:
    return PodStatus("one", "Failed" if code else "Succeeded", None, code, message)


def test_the_result_is_printed_as_the_driver_printed_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_end(ended(0, '{"state": "FINISHED"}\n'), LOG)
    assert capsys.readouterr() == ('{"state": "FINISHED"}\n', "")


@pytest.mark.parametrize(
    ("message", "out", "err"),
    [
        ('{"state": "FAILED"}\n', '{"state": "FAILED"}\n', ""),
        ("it cannot be replayed\n", "", "error: it cannot be replayed\n"),
        ("", "", "error: the driver failed\n"),
    ],
)
def test_a_failure_has_its_document_or_its_reason_and_its_exit_code(
    message: str, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as end:
        print_end(ended(2, message), LOG)
    assert end.value.exit_code == 2
    assert capsys.readouterr() == (out, f"{err}driver: Failed, exit code 2; {LOG}\n")


def test_a_driver_that_was_evicted_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as end:
        print_end(PodStatus("one", "Failed", None, None, "The node was low on memory"), LOG)
    assert end.value.exit_code == 1
    assert "error: The node was low on memory" in capsys.readouterr().err


def test_the_reason_of_a_submission_that_failed_is_the_clusters() -> None:
    said = (
        'Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: '
        "POST at: "
        'http://api/pods. Message: namespaces "data" not found. Received status: ..\n\tat io.fabric8.Some.method\n'
    )
    assert 'spark-submit failed: namespaces "data" not found' in str(not_submitted(said))
    assert "spark-submit failed: it says nothing" in str(not_submitted(""))


def test_the_modules_that_functions_need_go_along(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import its_helper\n")
    (tmp_path / "its_helper.py").write_text("")
    (tmp_path / "another.py").write_text("")
    (tmp_path / "package").mkdir()
    file, floors = tmp_path / "delays.yaml", tmp_path / "floors.json"
    document = {
        "name": "delays",
        "sources": {
            "numbers": {"generator": {"rows": 1, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}
        },
        "steps": {"same": {"from": "numbers", "map": {"function": "mine:same", "schema": {"n": "int64"}}}},
        "sinks": {"out": {"from": "same", "print": {}}},
    }
    file.write_text("{}")
    floors.write_text("[]")
    files = driver_files([file, floors], pipeline_from_dict(document), tmp_path)
    assert set(files) == {"delays.yaml", "floors.json", "mine.py", "its_helper.py"}
