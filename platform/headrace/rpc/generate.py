"""Writes `headrace.rpc.v1` and `headrace.rpc.messages` from `schemas`: `python -m headrace.rpc.generate [FOLDER]`.

For development: needs grpcio-tools and mypy-protobuf. FOLDER is the import root that gets them; the default is
`platform`, of the repository in whose root this runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from headrace.rpc.dataclass_text import dataclasses_text

SCHEMAS = Path("schemas")
TARGET = Path("platform")
MESSAGES_PROTO = Path("headrace/rpc/v1/messages.proto")
MESSAGES = Path("headrace/rpc/messages.py")


def generate(root: Path, target: Path) -> None:
    """Writes modules and their types below `target`; `root` is the repository. Raises subprocess.CalledProcessError."""
    protos = sorted(path.relative_to(root / SCHEMAS) for path in (root / SCHEMAS).rglob("*.proto"))
    serving = [path for path in protos if "\nservice " in (root / SCHEMAS / path).read_text()]
    _protoc(root, protos, *_outputs(target, "python", "mypy"))
    _protoc(root, serving, *_outputs(target, "grpc_python", "mypy_grpc"))
    (target / MESSAGES).write_text(_messages_text(root))


def _messages_text(root: Path) -> str:
    with tempfile.NamedTemporaryFile(suffix=".descriptors") as file:
        _protoc(root, [MESSAGES_PROTO], "--include_source_info", f"--descriptor_set_out={file.name}")
        descriptors = FileDescriptorSet.FromString(Path(file.name).read_bytes())
    return dataclasses_text(descriptors.file[0])


def _outputs(target: Path, code: str, types: str) -> tuple[str, str]:
    return f"--{code}_out={target.resolve()}", f"--{types}_out=quiet:{target.resolve()}"


def _protoc(root: Path, protos: list[Path], *options: str) -> None:
    # the plugins of mypy-protobuf are programs beside this interpreter
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{SCHEMAS}", *options, *map(str, protos)],
        cwd=root,
        env=os.environ | {"PATH": path},
        check=True,
    )


if __name__ == "__main__":
    generate(Path.cwd(), Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
