"""What the cluster of one job or application gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.client.requests import SubmitRequest
from headrace.core.errors import UserError
from headrace.deployment.kubernetes.cluster_file import program_work
from headrace.deployment.kubernetes.work import SECRET_BYTES_MAX, WORK_FOLDER, Work, job_work


def test_a_job_travels_whole() -> None:
    request = SubmitRequest(pipeline={"name": "p"}, key="k")
    work = job_work(request)
    ((name, content),) = work.files.items()
    assert work.arguments == ("--request", f"{WORK_FOLDER}/{name}")
    assert SubmitRequest.model_validate_json(content) == request


def test_a_program_travels_or_is_in_the_image(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("pass\n")
    work = program_work(str(tmp_path / "app.py"))
    assert work == Work(("--program", f"{WORK_FOLDER}/app.py"), {"app.py": b"pass\n"})
    assert program_work("local:///opt/app.py") == Work(("--program", "/opt/app.py"))
    for wrong in ("none.py", str(tmp_path)):
        with pytest.raises(UserError, match="no Python program"):
            program_work(wrong)


def test_what_is_too_large_for_a_secret_is_refused() -> None:
    with pytest.raises(UserError, match="a Secret of Kubernetes holds"):
        Work((), {"code": b" " * (SECRET_BYTES_MAX + 1)})
