"""What `headrace run` says and refuses where there is state of an earlier run of the pipeline's name."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from support.clusters.gated_run import checkpointed_attempt, open_gate, rows, wait_checkpoint_after, written
from support.processes.running import finish, headrace, start, wait_until

pytestmark = pytest.mark.turns(4)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a run writes that nothing happens to."""
    folder = written(tmp_path_factory.mktemp("straight") / "run")
    open_gate(folder)
    assert headrace(["run", "p.yaml"], folder).code == 0
    return rows(folder / "out")


def stopped_in_the_middle(folder: Path) -> None:
    """A run that has read some rows, and was ended by Ctrl-C."""
    process = start(["run", "p.yaml"], folder)
    wait_checkpoint_after(0, folder / "home")
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.code == 0, stopped.err
    assert "go on with: headrace run p.yaml --resume" in stopped.err


def edit(folder: Path, before: str, after: str) -> None:
    text = (folder / "p.yaml").read_text()
    assert before in text
    (folder / "p.yaml").write_text(text.replace(before, after))


def test_a_step_that_was_renamed_loses_no_state_without_a_word(tmp_path: Path, expected: list[str]) -> None:
    folder = written(tmp_path / "run")
    stopped_in_the_middle(folder)
    open_gate(folder)
    edit(folder, "sums", "totals")
    refused = headrace(["run", "p.yaml", "--resume"], folder)
    assert refused.code == 2, refused.err
    assert re.search(r"resuming run [0-9a-f]{12} from checkpoint \d+, \d+ \w+ old:", refused.err)
    assert re.search(r"sums +dropped", refused.err)
    assert "--allow-dropped-state" in refused.err
    resumed = headrace(["run", "p.yaml", "--resume", "--rename", "sums=totals"], folder)
    assert resumed.code == 0, resumed.err
    assert re.search(r"totals +restored +was sums", resumed.err)
    assert rows(folder / "out") == expected


def test_what_cannot_be_used_is_refused_before_the_first_row(tmp_path: Path, expected: list[str]) -> None:
    folder = written(tmp_path / "run")
    stopped_in_the_middle(folder)
    open_gate(folder)
    edit(folder, "key_by: [k]", "key_by: [id]")
    refused = headrace(["run", "p.yaml", "--resume"], folder)
    assert refused.code == 2, refused.err
    assert re.search(r"sums +incompatible", refused.err)
    edit(folder, "key_by: [id]", "key_by: [k]")
    resumed = headrace(["run", "p.yaml", "--resume"], folder)
    assert resumed.code == 0, resumed.err
    assert rows(folder / "out") == expected


def test_state_of_another_file_is_not_taken(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    stopped_in_the_middle(folder)
    open_gate(folder)
    (folder / "other.yaml").write_text((folder / "p.yaml").read_text())
    refused = headrace(["run", "other.yaml", "--resume"], folder)
    assert refused.code == 2, refused.err
    assert str(folder / "p.yaml") in refused.err
    assert "--from-savepoint" in refused.err
    assert headrace(["run", "p.yaml", "--resume"], folder).code == 0


def test_a_run_that_begins_anew_says_what_it_leaves_behind(tmp_path: Path, expected: list[str]) -> None:
    folder = written(tmp_path / "run")
    stopped_in_the_middle(folder)
    open_gate(folder)
    anew = headrace(["run", "p.yaml"], folder)
    assert anew.code == 0, anew.err
    said = re.search(
        r"an earlier run of counted has kept its state, checkpoint \d+, .* old; this run starts anew\n"
        r".*headrace run p.yaml --from-savepoint (\S+)",
        anew.err,
    )
    assert said is not None, anew.err
    assert rows(folder / "out") == expected
    went_on = headrace(["run", "p.yaml", "--from-savepoint", said[1]], folder)
    assert went_on.code == 0, went_on.err
    assert re.search(r"sums +restored", went_on.err)
    assert rows(folder / "out") == expected


def test_two_runs_of_a_name_are_refused_and_of_two_names_are_not(tmp_path: Path, expected: list[str]) -> None:
    folder = written(tmp_path / "run")
    process = start(["run", "p.yaml"], folder)
    wait_checkpoint_after(0, folder / "home")
    for also in ([], ["--resume"]):
        refused = headrace(["run", "p.yaml", *also], folder)
        assert refused.code == 2, refused.err
        assert f"as process {process.pid}" in refused.err
        assert "--name" in refused.err
    open_gate(folder)
    beside = headrace(["run", "p.yaml", "--name", "beside", "--set", "sinks.out.files.path=beside"], folder)
    assert beside.code == 0, beside.err
    assert rows(folder / "beside") == expected
    assert finish(process).code == 0
    assert rows(folder / "out") == expected


def test_kept_runs_are_listed_resumed_and_deleted(tmp_path: Path, expected: list[str]) -> None:
    folder = written(tmp_path / "run")
    stopped_in_the_middle(folder)
    left = listed(folder)
    assert [(each["pipeline"], each["state"], each["file"]) for each in left] == [
        ("counted", "KEPT", str(folder / "p.yaml"))
    ]
    process = start(["run", "p.yaml"], folder)
    wait_until(lambda: len(listed(folder)) == 2, "the second run is recorded")
    newest = listed(folder)[0]
    wait_until(lambda: checkpointed_attempt(folder / "home", newest["run"]) > 0, "it has a checkpoint")
    assert [each["state"] for each in listed(folder)] == ["RUNNING", "LEFT"]
    refused = headrace(["runs", "clean", newest["run"]], folder)
    assert refused.code == 2, refused.err
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 0
    assert "counted" in headrace(["runs", "list"], folder).out
    open_gate(folder)
    for run in (left[0]["run"], newest["run"]):
        resumed = headrace(["runs", "resume", run], folder)
        assert resumed.code == 0, resumed.err
        assert rows(folder / "out") == expected
    stays = listed(folder)
    assert headrace(["runs", "clean", "--all", "--json"], folder).json == {"deleted": [each["run"] for each in stays]}
    assert listed(folder) == []
    assert list((folder / "home" / "checkpoints").iterdir()) == []
    assert headrace(["runs", "resume", "counted"], folder).code == 2


def listed(folder: Path) -> list[dict[str, str]]:
    found = headrace(["runs", "list", "--json"], folder)
    assert found.code == 0, found.err
    runs: list[dict[str, str]] = found.json["runs"]
    return runs


DIES = """\
import os


def held(rows):
    os.write(2, b"last words")
    os._exit(3)
"""


def test_logs_that_a_message_names_are_there_after_the_run(tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    kept = folder / "home" / "runs" / "logs"
    # one slot: another one's word that it lost its peer may come before that one's end is seen
    alone = ["run", "p.yaml", "--parallelism", "1", "--set", "restart={strategy: none}"]
    (folder / "gate.py").write_text(DIES)
    failed = headrace(alone, folder)
    assert failed.code == 1, failed.err
    named = re.search(r"see (\S+/\S+\.log)", failed.err)
    assert named is not None, failed.err
    assert "last words" in Path(named[1]).read_text()
    assert Path(named[1]).is_relative_to(kept)
    (folder / "gate.py").write_text(DIES.replace("os.write", "str"))
    silent = headrace(alone, folder)
    assert (silent.code, ".log" in silent.err) == (1, False), silent.err
    (folder / "gate.py").write_text("def held(rows):\n    return rows\n")
    before = sorted(kept.iterdir())
    assert headrace(["run", "p.yaml"], folder).code == 0
    assert sorted(kept.iterdir()) == before, "of a run that went well nothing is kept"
