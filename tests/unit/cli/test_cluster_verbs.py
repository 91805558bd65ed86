"""The verbs that talk to a cluster, against the real REST API: what is sent, what is printed, how they end."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import ExternalError, InvalidPipelineError, Problem, UserError
from support.control.scripted_cluster import TOKEN, ScriptedCluster, serving
from support.processes.commands import headrace

YAML = """\
name: counting
sources:
  numbers:
    generator: {rows: 10, columns: {n: {sequence: {}}}}
    schema: {n: int64}
steps:
  doubled:
    from: numbers
    map: {function: "functions:doubled", schema: {n: int64}}
sinks:
  out:
    from: doubled
    print: {}
    format: json
"""
PYTHON = """\
import headrace as hr

p = hr.Pipeline("built")
p.source("numbers", generator={"rows": 1, "columns": {"n": {"sequence": {}}}}, schema={"n": "int64"}).sink(
    "out", print={}, format="json"
)
"""


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster()


@pytest.fixture(autouse=True)
def folder(cluster: ScriptedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a pipeline to work in, and the cluster in the environment."""
    (tmp_path / "p.yaml").write_text(YAML)
    (tmp_path / "functions.py").write_text("def doubled(rows):\n    return rows\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    with serving(cluster) as url:
        monkeypatch.setenv("HEADRACE_COORDINATOR", url)
        monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
        yield tmp_path


def document(*arguments: str, code: int = 0) -> Any:
    return json.loads(headrace(*arguments, "--json", code=code).stdout)


def submitted(cluster: ScriptedCluster, *options: str) -> str:
    job = headrace("submit", "p.yaml", *options).stdout.strip()
    assert job in cluster.jobs_by_id
    return job


class TestSubmit:
    def test_prints_the_job_id_and_nothing_else(self, cluster: ScriptedCluster) -> None:
        result = headrace("submit", "p.yaml")
        assert result.stdout.splitlines() == list(cluster.jobs_by_id)
        assert result.stderr == ""
        assert document("submit", "p.yaml", "--allow-duplicate") == {"job_id": list(cluster.jobs_by_id)[1]}

    def test_sends_what_the_flags_say(self, cluster: ScriptedCluster, folder: Path) -> None:
        flags = [
            "--claim",
            "--take-over",
            "--allow-dropped-state",
            "--allow-drained",
            "--allow-duplicate",
            "--parallelism",
            "3",
        ]
        job = submitted(cluster, *flags, "--rename", "a=b", "--rename", "c=d", "--set", "name=other")
        request = cluster.jobs_by_id[job].request
        assert (request.claim, request.take_over, request.allow_dropped_state) == (True, True, True)
        assert (request.allow_drained, request.allow_duplicate, request.mode) == (True, True, "session")
        assert request.renames == {"a": "b", "c": "d"}
        assert request.from_savepoint is None
        assert (request.pipeline["name"], request.pipeline["parallelism"]) == ("other", 3)

    def test_ships_the_code_beside_the_file(self, cluster: ScriptedCluster, folder: Path) -> None:
        (folder / "lib.py").write_text("")
        with tarfile.open(folder / "model.tar.gz", "w:gz") as tar:
            tar.add(folder / "lib.py", "model/lib.py")
        job = submitted(cluster, "--py-files", "lib.py", "--archive", "model.tar.gz")
        lib, model, own = cluster.jobs_by_id[job].request.code
        assert (lib.name, model.name) == ("lib.py", "model.tar.gz")
        with tarfile.open(fileobj=io.BytesIO(own.content)) as packed:
            assert packed.getnames() == ["functions.py"]

    def test_takes_a_python_pipeline_with_another_parallelism(self, cluster: ScriptedCluster, folder: Path) -> None:
        (folder / "built_here.py").write_text(PYTHON)
        headrace("submit", "built_here.py", "--parallelism", "2")
        (job,) = cluster.jobs_by_id.values()
        assert (job.name, job.parallelism) == ("built", 2)

    def test_finds_what_is_wrong_before_it_asks_anybody(self, cluster: ScriptedCluster, folder: Path) -> None:
        (folder / "p.yaml").write_text(YAML.replace("from: doubled", "from: doubld"))
        result = headrace("submit", "p.yaml", "--coordinator", "http://127.0.0.1:1", code=2)
        assert "p.yaml:" in result.stderr
        assert "doubled" in result.stderr

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--mode", "application"], "is no Python program"),
            (["--target", "yarn"], "no cluster is named"),
            (["--target", "yarn", "--namespace", "n"], "--namespace means nothing with"),
            (["--target", "yarn", "--mode", "per-job"], "nothing describes the cluster"),
            (["--rename", "a"], "write --rename OLD=NEW"),
            (["--rename", "a=b", "--rename", "a=c"], "gives 'a' two names"),
            (["--py-files", "gone.py"], "gone.py cannot be read"),
            (["--ha", "file:///shared"], "--ha means nothing to a cluster that runs"),
            (["--mode", "per-job", "--host", "h"], "--host means nothing without --ha"),
            (["--mode", "per-job", "--ha", "zookeeper://h/p"], "where coordinators share their ledger is not given"),
            (["--mode", "per-job", "--ha", "ftp://h"], "ftp://h names no election"),
        ],
    )
    def test_wrong_use(self, cluster: ScriptedCluster, flags: list[str], message: str) -> None:
        assert message in headrace("submit", "p.yaml", *flags, code=2).stderr
        assert cluster.jobs_by_id == {}

    @pytest.mark.parametrize(
        "flags",
        [
            ["--mode", "session"],
            ["--claim"],
            ["--take-over"],
            ["--allow-duplicate"],
            ["--wait"],
            ["--coordinator", "http://127.0.0.1:1"],
            ["--ha", "file:///shared"],
            ["--ledger", "/shared"],
        ],
    )
    def test_spark_takes_no_option_of_a_cluster(self, flags: list[str]) -> None:
        told = headrace("submit", "p.yaml", "--target", "spark", *flags, code=2).stderr
        assert f"{flags[0]} means nothing with --target spark" in told

    @pytest.mark.parametrize("flags", [["--master", "local[1]"], ["--conf", "a=b"]])
    def test_a_cluster_takes_no_option_of_spark(self, cluster: ScriptedCluster, flags: list[str]) -> None:
        told = headrace("submit", "p.yaml", *flags, code=2).stderr
        assert f"{flags[0]} means nothing without --target spark" in told
        assert cluster.jobs_by_id == {}

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--name", "n"], "--name means nothing without --target kubernetes"),
            (["--target", "spark", "--config", "c.yaml"], "--config means nothing without --target kubernetes"),
            (["--target", "kubernetes"], "no cluster is named"),
            (
                ["--target", "kubernetes", "--name", "n", "--config", "c.yaml"],
                "--config describes no cluster that runs",
            ),
            (["--target", "kubernetes", "--host", "h"], "--host means nothing with --target kubernetes"),
            (["--target", "kubernetes", "--coordinator", "u"], "--coordinator means nothing with --target kubernetes"),
            (["--target", "kubernetes", "--mode", "per-job"], "nothing describes the cluster"),
            (["--target", "kubernetes", "--mode", "application"], "p.yaml is no Python program"),
            (
                ["--target", "kubernetes", "--mode", "application", "--parallelism", "2"],
                "--parallelism means nothing with --target kubernetes",
            ),
            (["--target", "kubernetes", "--mode", "application", "--wait"], "--wait means nothing for an application"),
        ],
    )
    def test_options_of_kubernetes(self, cluster: ScriptedCluster, flags: list[str], message: str) -> None:
        assert message in headrace("submit", "p.yaml", *flags, code=2).stderr
        assert cluster.jobs_by_id == {}

    def test_a_second_job_of_a_name_is_refused(self, cluster: ScriptedCluster) -> None:
        submitted(cluster)
        assert "--allow-duplicate" in headrace("submit", "p.yaml", code=2).stderr

    def test_what_the_coordinator_finds_is_told_as_if_found_here(self, cluster: ScriptedCluster) -> None:
        cluster.refuse = InvalidPipelineError([Problem("no such topic", ("sources", "numbers"), None, "create it")])
        assert "error: sources.numbers: no such topic\n  create it" in headrace("submit", "p.yaml", code=2).stderr

    @pytest.mark.parametrize(("end", "code"), [("FINISHED", 0), ("FAILED", 1), ("CANCELED", 1)])
    def test_waits_for_the_end(
        self, cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, end: str, code: int
    ) -> None:
        accept = cluster.submit

        async def ends_at_once(request: Any) -> str:
            job = await accept(request)
            cluster.jobs_by_id[job].state = end
            cluster.jobs_by_id[job].failure = "the broker went away" if end == "FAILED" else None
            return job

        monkeypatch.setattr(cluster, "submit", ends_at_once)
        result = headrace("submit", "p.yaml", "--wait", code=code)
        assert result.stdout.splitlines() == list(cluster.jobs_by_id)
        assert end in result.stderr
        assert ("error: the broker went away" in result.stderr) == (end == "FAILED")
        found = document("submit", "p.yaml", "--wait", code=code)
        assert (found["job_id"], found["state"]) == (list(cluster.jobs_by_id)[1], end)


class TestLooking:
    def test_list(self, cluster: ScriptedCluster) -> None:
        assert headrace("list").stdout == ""
        job = submitted(cluster)
        (listed,) = document("list")["jobs"]
        assert (listed["job_id"], listed["name"], listed["state"]) == (job, "counting", "RUNNING")
        assert headrace("list").stdout.splitlines()[1].split() == [job, "counting", "RUNNING", "2026-01-31", "09:00:00"]

    def test_status(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster, "--parallelism", "2")
        cluster.jobs_by_id[job].failure = "a slot was killed"
        text = headrace("status", job[:6]).stdout
        assert [
            part for part in (job, "RUNNING", "checkpoint 3", "/c/3", "a slot was killed") if part not in text
        ] == []
        assert [line.split()[0] for line in text.splitlines() if "worker-1" in line] == ["0", "1"]
        found = document("status", "counting")
        stable = {"job_id", "name", "state", "attempt", "parallelism", "nodes", "checkpoint", "failure"}
        assert stable <= set(found)
        assert set(found["checkpoint"]) == {"epoch", "completed_at", "path", "bytes"}

    def test_a_job_is_watched_to_its_end(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        states = iter(["RUNNING", "RESTARTING", "FINISHED"])

        def move() -> None:
            cluster.jobs_by_id[job].state = next(states)

        cluster.before_status = move
        looks = headrace("status", job, "--watch", "--every", "1ms", "--json").stdout.splitlines()
        assert [json.loads(look)["state"] for look in looks] == ["RUNNING", "RESTARTING", "FINISHED"]
        assert headrace("status", job, "--watch", "--every", "soon", code=2).stderr.startswith("error: --every:")

    def test_failures_are_shown_on_demand(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        assert "bad row" not in headrace("status", job).stdout
        assert "attempt 1, t/0/7\n  bad row" in headrace("status", job, "--exceptions").stdout
        assert document("status", job, "--exceptions")["exceptions"][0]["place"] == "t/0/7"

    def test_many_subtasks_are_shown_on_demand(self, cluster: ScriptedCluster) -> None:
        submitted(cluster, "--parallelism", "40")
        assert "worker-1" not in headrace("status", "counting").stdout
        assert headrace("status", "counting", "--subtasks").stdout.count("worker-1") == 40

    def test_logs(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        cluster.jobs_by_id[job].log += ["one", "two", "three"]
        assert headrace("logs", job, "-n", "2").stdout == "two\nthree\n"
        assert document("logs", job) == {"lines": ["one", "two", "three"]}

    def test_logs_are_followed_to_the_end_of_the_job(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        found = cluster.jobs_by_id[job]
        found.log += ["one", "two"]
        said = iter(["three", "four", None, None])

        def say() -> None:
            """Before each look at its state the job says a line; then it ends."""
            if (line := next(said, None)) is not None:
                found.log.append(line)
            else:
                found.state = "FINISHED"

        cluster.before_status = say
        assert headrace("logs", job, "-n", "1", "--follow").stdout == "two\nthree\nfour\n"

    def test_explain_live(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        assert headrace("explain", job, "--live").stdout.splitlines() == [
            f"{job}  flights",
            "sink out (kafka) is slow",
            "  events waits for room",
            "remedy: raise its parallelism",
        ]
        assert document("explain", job, "--live")["node"] == "out"

    @pytest.mark.parametrize("option", ["--set=a=b", "--against=x", "--rename=a=b"])
    def test_explain_live_takes_no_option_of_a_file(self, cluster: ScriptedCluster, option: str) -> None:
        refused = headrace("explain", submitted(cluster), "--live", option, code=2)
        assert option.partition("=")[0] in refused.stderr and "--live" in refused.stderr

    def test_checkpoints(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        _, failed, committed = headrace("checkpoints", job).stdout.splitlines()
        assert "the disk is full" in failed
        assert committed.split()[-3:] == ["12", "ms", "3,000"]
        assert [each["epoch"] for each in document("checkpoints", job)["checkpoints"]] == [4, 3]

    def test_an_unknown_job(self, cluster: ScriptedCluster) -> None:
        submitted(cluster)
        result = headrace("status", "countin", code=2)
        assert "did you mean 'counting'?" in result.stderr


class TestOperations:
    def test_savepoint(self, cluster: ScriptedCluster, folder: Path) -> None:
        job = submitted(cluster)
        assert headrace("savepoint", job).stdout == "/savepoints/savepoint-1\n"
        assert document("savepoint", job, "here")["path"] == f"{folder}/here/savepoint-1"
        assert document("savepoint", job, "s3://bucket/x")["path"] == "s3://bucket/x/savepoint-1"

    def test_stop(self, cluster: ScriptedCluster, folder: Path) -> None:
        job = submitted(cluster)
        assert headrace("stop", job, "--savepoint", "here", "--drain").stdout == f"{folder}/here/drained-1\n"
        assert cluster.jobs_by_id[job].state == "FINISHED"
        assert "has ended" in headrace("stop", job, code=2).stderr
        assert cluster.stop_within_ms == 60_000
        other = submitted(cluster)
        assert document("stop", other)["path"] == "/checkpoints/7"

    def test_a_stop_that_ends_early_says_why_and_how_to_go_on(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        cluster.note = "ended at checkpoint 7: its attempt 3 had failed"
        stopped = headrace("stop", job, "--within", "1m 30s")
        assert cluster.stop_within_ms == 90_000
        assert stopped.stdout == "/checkpoints/7\n"
        assert stopped.stderr == (
            f"{job} ended at checkpoint 7: its attempt 3 had failed\n"
            "go on with: headrace submit FILE --from-savepoint /checkpoints/7\n"
        )

    @pytest.mark.parametrize("within", ["500ms", "2d"])
    def test_a_stop_needs_a_bound(self, cluster: ScriptedCluster, within: str) -> None:
        refused = headrace("stop", submitted(cluster), "--within", within, code=2)
        assert "give 1s to 1d" in refused.stderr

    def test_cancel(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        assert document("cancel", "counting") == {"job_id": job, "state": "CANCELED"}
        other = submitted(cluster)
        result = headrace("cancel", other)
        assert result.stdout == f"{other}: CANCELED\n"
        assert "/c/3" in result.stderr

    def test_rescale(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        assert document("rescale", job, "--parallelism", "4")["parallelism"] == 4
        assert "with parallelism 2" in headrace("rescale", job, "--parallelism", "2").stdout
        headrace("rescale", job, code=2)

    def test_one_that_fails(self, cluster: ScriptedCluster) -> None:
        job = submitted(cluster)
        cluster.failing = ExternalError("the disk is full", remedy="make room")
        result = headrace("savepoint", job, code=1)
        assert result.stderr == "error: the disk is full\n  make room\n"
        assert result.stdout == ""


@pytest.mark.parametrize(
    "verb", ["list", "status a", "logs a", "checkpoints a", "savepoint a", "stop a", "cancel a", "submit p.yaml"]
)
def test_nobody_at_home_is_exit_code_3(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no coordinator answers" in headrace(*verb.split(), "--coordinator", "http://127.0.0.1:1", code=3).stderr
    monkeypatch.delenv("HEADRACE_COORDINATOR")
    assert "headrace cluster start" in headrace(*verb.split(), code=3).stderr


class TestUpgrade:
    @pytest.fixture
    def old(self, cluster: ScriptedCluster, folder: Path) -> str:
        (folder / "old.yaml").write_text(
            YAML.replace("doubled:\n", "before:\n").replace("from: doubled", "from: before")
        )
        return headrace("submit", "old.yaml").stdout.strip()

    def test_the_new_pipeline_goes_on_from_the_old_state(
        self, cluster: ScriptedCluster, old: str, folder: Path
    ) -> None:
        result = headrace("upgrade", old, "p.yaml", "--savepoint", "kept", "--rename", "before=doubled")
        new = result.stdout.strip()
        request = cluster.jobs_by_id[new].request
        assert (request.from_savepoint, request.renames) == (f"{folder}/kept/savepoint-1", {"before": "doubled"})
        assert cluster.jobs_by_id[old].state == "FINISHED"
        assert f"{folder}/kept/savepoint-1" in result.stderr

    def test_a_refused_one_gives_way_to_the_old(
        self, cluster: ScriptedCluster, old: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        accept = cluster.submit

        async def refuses_the_new(request: Any) -> str:
            if "doubled" in request.pipeline["steps"]:
                raise UserError("state of before would be lost", remedy="--rename")
            return await accept(request)

        monkeypatch.setattr(cluster, "submit", refuses_the_new)
        result = headrace("upgrade", "counting", "p.yaml", code=2)
        again = list(cluster.jobs_by_id)[1]
        assert cluster.jobs_by_id[again].request.from_savepoint == "/checkpoints/7"
        assert "before" in cluster.jobs_by_id[again].request.pipeline["steps"]
        assert f"runs again as {again}" in result.stderr
        assert "error: state of before would be lost" in result.stderr
        found = document("upgrade", "counting", "p.yaml", code=2)
        assert found["old_job_id"] == again
        assert found["job_id"] == list(cluster.jobs_by_id)[2]
        assert found["refused"].startswith("state of before would be lost")

    @staticmethod
    def fail_the_new(cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, *, has_checkpoint: bool) -> None:
        accept = cluster.submit

        async def fails_the_new(request: Any) -> str:
            job = await accept(request)
            if "doubled" in request.pipeline["steps"]:
                cluster.jobs_by_id[job].state, cluster.jobs_by_id[job].failure = "FAILED", "no module functions"
                cluster.jobs_by_id[job].has_checkpoint = has_checkpoint
            return job

        monkeypatch.setattr(cluster, "submit", fails_the_new)

    def test_one_that_fails_before_it_runs_gives_way_to_the_old(
        self, cluster: ScriptedCluster, old: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.fail_the_new(cluster, monkeypatch, has_checkpoint=False)
        result = headrace("upgrade", old, "p.yaml", code=2)
        assert "failed before it ran: no module functions" in result.stderr
        assert [job.state for job in cluster.jobs_by_id.values()] == ["FINISHED", "FAILED", "RUNNING"]

    def test_one_that_fails_soon_after_its_first_checkpoint_has_run(
        self, cluster: ScriptedCluster, old: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.fail_the_new(cluster, monkeypatch, has_checkpoint=True)
        headrace("upgrade", old, "p.yaml")
        assert [job.state for job in cluster.jobs_by_id.values()] == ["FINISHED", "FAILED"]

    def test_a_stop_that_fails_changes_nothing(self, cluster: ScriptedCluster, old: str) -> None:
        cluster.failing = ExternalError("the disk is full")
        assert "the disk is full" in headrace("upgrade", old, "p.yaml", code=1).stderr
        assert [job.state for job in cluster.jobs_by_id.values()] == ["RUNNING"]

    def test_where_neither_can_start_the_path_is_told(
        self, cluster: ScriptedCluster, old: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def refuses(_: Any) -> str:
            raise ExternalError("no storage")

        monkeypatch.setattr(cluster, "submit", refuses)
        assert "--from-savepoint /checkpoints/7" in headrace("upgrade", old, "p.yaml", code=1).stderr

    def test_a_wrong_file_stops_nothing(self, cluster: ScriptedCluster, old: str, folder: Path) -> None:
        (folder / "p.yaml").write_text("name: x")
        headrace("upgrade", old, "p.yaml", code=2)
        assert [job.state for job in cluster.jobs_by_id.values()] == ["RUNNING"]
