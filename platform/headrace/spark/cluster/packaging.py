"""Packages that travel with a job to the hosts of a Spark cluster, by spark-submit's conventions: settings, and only
one kind of file, the pipeline's own modules in an archive.

    py_files   modules, zips, wheels: on the import path of every Python worker (spark.submit.pyFiles)
    archives   PATH[#ALIAS], unpacked where a task runs (spark.archives); ALIAS `environment` has the Python of tasks
    own code   modules beside the pipeline file, with their imports from there: an archive, too
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.client.submission import job_code
from headrace.spec.pipeline import Pipeline

OWN_CODE = "headrace-pipeline-code"
"""Folder of the unpacked modules of the pipeline, below a task's working folder."""
ENVIRONMENT = "environment"
ENVIRONMENT_PYTHON = f"./{ENVIRONMENT}/bin/python"
PYTHON = "PYSPARK_PYTHON"

PY_FILES, ARCHIVES = "spark.submit.pyFiles", "spark.archives"


@dataclass(frozen=True, slots=True)
class Packages:
    """Paths and URLs, as the user wrote them."""

    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()

    @staticmethod
    def of(py_files: Iterable[str], archives: Iterable[str]) -> Packages:
        """Each item may hold several paths, separated by commas."""
        return Packages(_each(py_files), _each(archives))

    def with_own_code(self, pipeline: Pipeline, folder: Path, into: Path) -> Packages:
        """Adds the modules beside the pipeline file, packed into a file in `into`, if there are any. Raises
        UserError.
        """
        own = job_code(pipeline, folder)
        made = []
        for archive in own:
            path = into / archive.name
            path.write_bytes(archive.content)
            made.append(f"{path}#{OWN_CODE}")
        return Packages(self.py_files, (*self.archives, *made))

    def settings(self, chosen: Mapping[str, str]) -> dict[str, str]:
        """Returns `chosen` with the packages added as Spark settings."""
        own = {PY_FILES: self.py_files, ARCHIVES: self.archives}
        joined = {
            name: ",".join([*([chosen[name]] if chosen.get(name) else ()), *paths])
            for name, paths in own.items()
            if paths
        }
        return {**chosen, **joined}

    def python(self) -> str | None:
        """Returns the Python of the tasks, if an archive contains one and the user's environment names no other."""
        aliases = {path.rpartition("#")[2] for path in self.archives if "#" in path}
        return ENVIRONMENT_PYTHON if ENVIRONMENT in aliases and PYTHON not in os.environ else None


def _each(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for text in given for part in text.split(",") if part)
