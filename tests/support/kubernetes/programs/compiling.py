"""Builds one program of Kubernetes after the other with Go, from the module proxy, in a scratch folder.

Modules, compiled packages and the tools themselves stay in that folder, which its owner removes: 5 GB. It must not know
where programs are kept.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from headrace.core.errors import ExternalError
from support.kubernetes.programs import recipe
from support.kubernetes.programs.go_toolchain import require_go
from support.kubernetes.programs.recipe import Component

_TRIES = 3
"""A download may fail once. Whatever a try has compiled, the next one reuses."""
_PAUSE_SECONDS = 10.0
_STEP_SECONDS = 7200
_TAIL_LINES = 15


class Compiler:
    """Go, with modules and compiled packages in `scratch`. log: receives what Go prints."""

    def __init__(self, scratch: Path, log: Path) -> None:
        self._scratch = scratch
        self._log = log
        scratch.mkdir(parents=True, exist_ok=True)
        self._go = require_go(scratch / "go")
        self._environment = os.environ | {
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "GOFLAGS": "-buildvcs=false -mod=mod",
            "GOPATH": str(scratch / "path"),
            "GOMODCACHE": str(scratch / "path" / "pkg" / "mod"),
            "GOCACHE": str(scratch / "compiled"),
        }

    def build(self, component: Component) -> Path:
        """Returns the program, in the scratch folder. Raises ExternalError."""
        folder = self._prepared(component.module)
        program = self._scratch / "programs" / component.name
        program.parent.mkdir(exist_ok=True)
        # the linker drops what debuggers need, so the compiler writes none, which saves a twelfth of the time
        options = ("-trimpath", "-gcflags=all=-dwarf=false", "-tags", recipe.TAGS, "-ldflags", recipe.linker_flags())
        self._run(folder, "build", *options, "-o", str(program), component.package)
        return program

    def _prepared(self, module: str) -> Path:
        """Returns the folder of a module with its go.mod and sources; they are made at the first call."""
        folder = self._scratch / module
        if (folder / "go.mod").exists():
            return folder
        unfinished = self._scratch / f"{module}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        match module:
            case "kubernetes":
                release = self._downloaded_release()
                (unfinished / "go.mod").write_text(recipe.release_module((release / "go.mod").read_text()))
                (unfinished / "go.sum").write_bytes((release / "go.sum").read_bytes())
            case "coredns":
                (unfinished / "main.go").write_text(recipe.COREDNS_MAIN)
                (unfinished / "go.mod").write_text(recipe.COREDNS_MODULE)
                self._run(unfinished, "mod", "tidy")
            case "helm":
                (unfinished / "main.go").write_text(recipe.HELM_MAIN)
                (unfinished / "go.mod").write_text(recipe.HELM_MODULE)
                self._run(unfinished, "mod", "tidy")
            case "pause":
                (unfinished / "main.go").write_text(recipe.PAUSE_MAIN)
                (unfinished / "go.mod").write_text(recipe.PAUSE_MODULE)
            case _:
                raise ValueError(f"there is no module {module}")
        return unfinished.rename(folder)

    def _downloaded_release(self) -> Path:
        answer = self._run(self._scratch, "mod", "download", "-json", f"k8s.io/kubernetes@{recipe.KUBERNETES}")
        return Path(json.loads(answer)["Dir"])

    def _run(self, folder: Path, *arguments: str) -> str:
        """Runs Go in a folder. Returns what it prints to its output; its messages go to the log."""
        failure = ""
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE_SECONDS)
            start = self._log.stat().st_size if self._log.exists() else 0
            try:
                with self._log.open("ab") as log:
                    return subprocess.run(
                        [str(self._go), *arguments],
                        cwd=folder,
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                        check=True,
                        timeout=_STEP_SECONDS,
                    ).stdout
            except subprocess.SubprocessError as error:
                failure = f"{error}\n{_tail(self._log, start)}"
        raise ExternalError(f"go {arguments[0]} failed {_TRIES} times: {failure}", remedy=f"its whole log: {self._log}")


def _tail(log: Path, start: int) -> str:
    with log.open("rb") as source:
        source.seek(start)
        return "\n".join(source.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])
