"""Checkpoint storage that a test makes full or read-only: a small file system in a mount namespace of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.processes.running import WAIT_SECONDS


class SmallStorage:
    """A file system at `place`, which only processes of the namespace see; `keeper` holds it. size: as of `mount`."""

    def __init__(self, place: Path, size: str) -> None:
        place.mkdir()
        self.place = place
        mount = f"mount -t tmpfs -o size={size} tmpfs {place} && echo ready && exec cat"
        self.keeper = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.keeper.stdout is not None
        assert self.keeper.stdout.readline() == b"ready\n"

    @property
    def prefix(self) -> list[str]:
        """Puts a command into the namespace."""
        return ["nsenter", f"--target={self.keeper.pid}", "--user", "--mount", "--preserve-credentials"]

    def run(self, script: str) -> None:
        """A shell command inside of it."""
        subprocess.run([*self.prefix, "sh", "-c", script], check=True, timeout=WAIT_SECONDS)

    def lock(self) -> None:
        """Makes it read-only, which is refused for as long as somebody has a file open to write."""
        self.run(f"until mount -o remount,ro {self.place} 2>&-; do sleep 0.01; done")

    def unlock(self) -> None:
        """Makes it writable again."""
        self.run(f"mount -o remount,rw {self.place}")

    def fill(self) -> None:
        """Takes all space that is left now: what is deleted later is free again."""
        self.run(f"cat /dev/zero >> {self.place}/filler 2>&- || true")

    def close(self) -> None:
        """It goes with its last process."""
        self.keeper.communicate()
