"""File systems that refuse: full, read-only. A mount namespace of its own makes them: nothing outside is changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.running import WAIT_SECONDS

_SCRIPT = """
import os, subprocess, sys
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError

folder, case = sys.argv[1], sys.argv[2]
store = open_store(folder + "/storage")

def tell(what):
    try:
        print(what())
    except ExternalError as error:
        print(type(error).__name__, error.retry, error.message, "|", error.remedy)

if case == "full":
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True)
    tell(lambda: store.put_if_absent("state/a", bytes(100_000)))
    tell(lambda: store.put_if_absent("state/b", bytes(400_000)))
    store.delete(["state/a"])
    tell(lambda: store.put_if_absent("state/c", bytes(100_000)))
    print(store.list(""), list(store.leftovers()))
elif case == "state":
    local = folder + "/local"
    os.mkdir(local)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", local], check=True)
    ran = subprocess.run([sys.executable, "-m", "headrace", "run", folder + "/p.json"], capture_output=True, text=True)
    print(ran.returncode, ran.stderr)
    print(os.listdir(local))
elif case == "read-only":
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    store.put_if_absent("state/a", b"data")
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    tell(lambda: store.put_if_absent("state/b", b"data"))
    tell(lambda: store.delete(["state/a"]))
    tell(lambda: store.read("state/a"))
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
    tell(lambda: store.put_if_absent("state/b", b"data"))
"""


def _run(case: str, folder: Path) -> list[str]:
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", _SCRIPT, str(folder), case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_full_disk_is_named_with_its_remedy_and_leaves_no_half_file(tmp_path: Path) -> None:
    first, second, third, left = _run("full", tmp_path)
    assert first == "True"
    assert second.startswith(
        f"ExternalError True cannot write {tmp_path}/storage/state/b: No space left on device | free"
    )
    assert third == "True"
    assert left == "['state/c'] []"


def test_a_read_only_disk_is_named_and_works_again_later(tmp_path: Path) -> None:
    put, delete, read, again = _run("read-only", tmp_path)
    assert put.startswith(
        f"ExternalError True cannot write {tmp_path}/storage/state/b: Read-only file system | the file"
    )
    assert delete.startswith("ExternalError True cannot delete")
    assert read == "b'data'"
    assert again == "True"


@pytest.mark.full
def test_a_full_folder_of_local_files_fails_the_job_with_its_remedy(tmp_path: Path) -> None:
    columns = {"n": {"sequence": {}}, "at": {"time": {"step": "1ms"}}}
    source = {
        "generator": {"rows": 400_000, "columns": columns},
        "schema": {"n": "int64 not null", "at": "timestamp not null"},
        "time": {"column": "at"},
    }
    steps = {
        "named": {"from": "numbers", "with_columns": {"k": f"'{'x' * 400}' || cast(n as string)"}},
        "by_key": {"from": "named", "key_by": ["k"], "window": {"tumbling": "1d"}, "aggregate": {"rows": "count(*)"}},
    }
    document = {
        "name": "too-much",
        "state": {"backend": "disk", "memory": "32MiB", "dir": f"{tmp_path}/local"},
        "restart": {"strategy": "none"},
        "sources": {"numbers": source},
        "steps": steps,
        "sinks": {"out": {"from": "by_key", "print": {}, "format": "json"}},
    }
    (tmp_path / "p.json").write_text(json.dumps(document))
    told = "\n".join(_run("state", tmp_path))
    assert told.startswith("1 ")
    assert f"bytes of state cannot be written to {tmp_path}/local (" in told
    assert "bytes are free): the disk is full" in told
    assert "free space there, set state.dir to a larger disk, raise state.memory, or use a higher parallelism" in told
    assert told.endswith("[]"), "no file is left"
