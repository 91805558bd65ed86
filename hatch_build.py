"""Compiles the kernels into the wheel, and into a checkout that is installed in place.

Without a compiler of the system, the build asks the package index for one. HEADRACE_KERNELS=off leaves kernels out:
the wheel is then the same for all platforms, and slower.
"""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _compiling() -> Any:
    # by its path: importing the package takes its dependencies, which a build does not have
    path = Path(__file__).parent / "platform/headrace/kernels/compiling.py"
    spec = importlib.util.spec_from_file_location("compiling", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class KernelsHook(BuildHookInterface[Any]):
    """Hatchling calls it for each wheel, an editable one too."""

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        compiling = _compiling()
        return [] if _left_out() or compiling.compiler() else [compiling.ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and marks the wheel as one of this platform."""
        del version
        if self.target_name != "wheel" or _left_out():
            return
        compiling = _compiling()
        compiling.compile_library(compiling.LIBRARY)
        build_data["artifacts"].append("platform/headrace/kernels/headrace_kernels.so")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def _left_out() -> bool:
    return os.environ.get("HEADRACE_KERNELS") == "off"
