"""Writes `headrace.rpc.v1` from the .proto files in `schemas`: `python -m headrace.rpc.generate [FOLDER]`.

For development: needs grpcio-tools and mypy-protobuf. FOLDER is the import root that gets them; the default is
`platform`, of the repository in whose root this runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCHEMAS = Path("schemas")
TARGET = Path("platform")


def generate(root: Path, target: Path) -> None:
    """Writes modules and their types below `target`; `root` is the repository. Raises CalledProcessError."""
    protos = sorted(path.relative_to(root / SCHEMAS) for path in (root / SCHEMAS).rglob("*.proto"))
    serving = [path for path in protos if "\nservice " in (root / SCHEMAS / path).read_text()]
    _protoc(root, target, protos, ("python", "mypy"))
    _protoc(root, target, serving, ("grpc_python", "mypy_grpc"))


def _protoc(root: Path, target: Path, protos: list[Path], plugins: tuple[str, str]) -> None:
    # the plugins of mypy-protobuf are programs beside this interpreter
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    outputs = [f"--{plugins[0]}_out={target.resolve()}", f"--{plugins[1]}_out=quiet:{target.resolve()}"]
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{SCHEMAS}", *outputs, *map(str, protos)],
        cwd=root,
        env=os.environ | {"PATH": path},
        check=True,
    )


if __name__ == "__main__":
    generate(Path.cwd(), Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
