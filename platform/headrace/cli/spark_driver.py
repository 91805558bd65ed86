"""`headrace replay --deploy-mode cluster`: the same command, with its driver on the cluster, by spark-submit."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from headrace.cli.errors import FAILED
from headrace.core.errors import UserError
from headrace.spark.packaging import Packages
from headrace.spark.spark_submit import WHERE, Submission, installed_spark_submit, without
from headrace.spec.pipeline import Pipeline


def submit_driver(
    file: str, pipeline: Pipeline, packages: Packages, conf: Mapping[str, str], master: str | None
) -> None:
    """Says and runs the `spark-submit` that does what this process was asked for; ends as that one does. The pipeline
    file and the modules beside it travel. Raises UserError."""
    if master is None:
        raise UserError("--deploy-mode cluster needs a cluster", remedy="give --master yarn or --master k8s://..")
    application = find_spec("headrace.cli.spark_application.headrace_replay")
    assert application is not None and application.origin is not None, "it is installed with this command"
    name, colon, variable = file.partition(":") if ".py" in file else (file, "", "")
    path = Path(name).resolve()
    arguments = without(sys.argv[2:], WHERE)
    # there it lies where the driver runs
    arguments[arguments.index(file)] = f"{path.name}{colon}{variable}"
    with TemporaryDirectory(prefix="headrace-code-") as made:
        packed = packages.with_own_code(pipeline, path.parent, Path(made))
        submission = Submission(master, application.origin, ("--", *arguments), packed, (str(path),), conf)
        command = submission.command(installed_spark_submit())
        typer.echo(shlex.join(command), err=True)
        if subprocess.run(command, check=False).returncode != 0:
            raise typer.Exit(FAILED)
