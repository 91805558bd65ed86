"""What travels to a Spark cluster, and the spark-submit that takes a driver there."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.spark.cluster.packaging import ENVIRONMENT_PYTHON, Packages
from headrace.spark.cluster.spark_submit import WHERE, Submission, changed, installed_spark_submit, without
from headrace.spec.reading.read import pipeline_from_dict

PIPELINE = pipeline_from_dict(
    {
        "name": "mine",
        "sources": {
            "numbers": {"generator": {"rows": 3, "columns": {"n": {"sequence": {}}}}, "schema": {"n": "int64"}}
        },
        "steps": {"own": {"from": "numbers", "map": {"function": "mine:same", "schema": {"n": "int64"}}}},
        "sinks": {"out": {"from": "own", "print": {}}},
    }
)


def test_settings_join_what_a_user_chose() -> None:
    packages = Packages.of(["a.py,b.zip", "c.whl"], ["env.tar.gz#environment"])
    assert packages.settings({"spark.archives": "more.zip#more", "x": "1"}) == {
        "x": "1",
        "spark.submit.pyFiles": "a.py,b.zip,c.whl",
        "spark.archives": "more.zip#more,env.tar.gz#environment",
    }
    assert Packages().settings({"x": "1"}) == {"x": "1"}


def test_the_python_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert Packages.of([], ["env.tar.gz#environment"]).python() == ENVIRONMENT_PYTHON
    assert Packages.of([], ["env.tar.gz#other", "environment"]).python() is None
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert Packages.of([], ["env.tar.gz#environment"]).python() is None


def test_modules_beside_the_pipeline_travel(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "unrelated.py").write_text("")
    into = tmp_path / "packed"
    into.mkdir()
    (archive,) = Packages().with_own_code(PIPELINE, tmp_path, into).archives
    path, _, alias = archive.partition("#")
    assert alias == "headrace-pipeline-code"
    with tarfile.open(path) as packed:
        assert sorted(packed.getnames()) == ["helper.py", "mine.py"]
    assert Packages().with_own_code(PIPELINE, into, into) == Packages()


def test_a_driver_on_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    packages = Packages.of(["a.py"], ["env.tar.gz#environment"])
    submission = Submission("yarn", "app.py", ("--", "p.yaml", "--json"), packages, ("/at/p.yaml",), {"x": "1"})
    assert " ".join(submission.command("spark-submit")) == (
        "spark-submit --master yarn --deploy-mode cluster --name headrace-replay "
        "--py-files a.py --archives env.tar.gz#environment --files /at/p.yaml "
        "--conf x=1 --conf spark.pyspark.python=./environment/bin/python "
        "--conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./environment/bin/python app.py -- p.yaml --json"
    )
    with pytest.raises(UserError, match="runs no Python drivers"):
        Submission("spark://h:7077", "app.py", (), packages).command("spark-submit")
    assert Path(installed_spark_submit()).exists()


def test_options_that_say_where_are_left_out() -> None:
    given = ["p.yaml", "--master", "yarn", "--until=latest", "--conf=a=b", "--conf", "c=d", "--json", "--py-files", "x"]
    assert without(given, WHERE) == ["p.yaml", "--until=latest", "--json"]


def test_values_of_options_are_changed() -> None:
    given = ["p.yaml", "--floors", "in/floors", "--until=in/x", "--json", "--floors"]
    assert changed(given, {"--floors": lambda path: Path(path).name, "--until": str.upper}) == (
        ["p.yaml", "--floors", "floors", "--until=IN/X", "--json", "--floors"]
    )
