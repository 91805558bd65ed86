"""`headrace replay --deploy-mode cluster`: runs the same command on the cluster by spark-submit, and returns its output
and exit code.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from headrace.checkpoint.paths import absolute
from headrace.cli.errors import FAILED
from headrace.cli.spark.kubernetes_driver import DriverPod, driver_files
from headrace.cli.spark.settings import BEGINS_ANEW, Teller, interruptible
from headrace.core.errors import UserError
from headrace.core.files.named_file import named_file
from headrace.core.settings import Home
from headrace.plan.logical import plan_logical
from headrace.spark.cluster.cluster_settings import (
    DRIVER,
    EXECUTOR,
    YARN,
    driver_settings,
    executor_room,
    is_kubernetes,
    require_conf_dir,
    with_defaults,
)
from headrace.spark.cluster.driver_files import DriverEnd, end_url
from headrace.spark.cluster.packaging import Packages
from headrace.spark.cluster.spark_submit import (
    WHERE,
    Ended,
    Submission,
    SubmittedDriver,
    changed,
    installed_spark_submit,
    without,
)
from headrace.spark.launch.replay import ReplayOptions, require_replayable
from headrace.spec.pipeline import Pipeline

SETTLED_HERE = ("--set",)
"""Options that are already applied to the pipeline file that travels."""
NOT_WAITED_FOR = ("spark.yarn.submit.waitAppCompletion", "false")


@dataclass(frozen=True, slots=True)
class SentReplay:
    """A replay whose driver runs on the cluster.

    file      the pipeline file as the user named it
    pipeline  the content of the file, with absolute paths and with variables replaced
    options   of the replay; its Spark settings are the user's
    floors    path of the file with floors
    """

    file: str
    pipeline: Pipeline
    options: ReplayOptions
    packages: Packages
    floors: Path | None
    follow: bool

    def run(self) -> None:
        """Prints and runs the `spark-submit` command of this replay, and exits like its driver.

        The pipeline travels as it was read here, with the modules beside its file. Raises UserError, typer.Exit.
        """
        master = self._master()
        storage = self.options.storage or self.pipeline.checkpoint.storage or str(Home.from_environment().checkpoints)
        self.options.require_consistent()
        require_replayable(plan_logical(self.pipeline))
        if is_kubernetes(master):
            self._run_as_pod(master, storage)
            return
        self.options.require_reachable(master, storage)
        conf = {**self._own_conf(master), **self.options.conf}
        waited = with_defaults(conf).get(NOT_WAITED_FOR[0]) != NOT_WAITED_FOR[1]
        end = end_url(storage) if waited else None
        with TemporaryDirectory(prefix="headrace-code-") as made:
            folder = Path(made)
            packed = self.packages.with_own_code(self.pipeline, named_file(self.file).parent, folder)
            files = (self._write_pipeline(folder, storage), *([] if self.floors is None else [self.floors.resolve()]))
            arguments = [*([] if end is None else ["--end-at", end]), "--", *self._arguments(files[0].name)]
            submission = Submission(master, _application(), tuple(arguments), packed, tuple(map(str, files)), conf)
            command = submission.command(installed_spark_submit())
            teller = Teller()
            teller.say(shlex.join(command))
            with interruptible(teller, BEGINS_ANEW):
                ended = SubmittedDriver(command, teller.say).run()
        _end_alike(ended, None if end is None else DriverEnd.take(end))

    def _run_as_pod(self, master: str, storage: str) -> None:
        self.options.require_reachable(master, storage, roles=(DRIVER, EXECUTOR))
        with TemporaryDirectory(prefix="headrace-code-") as made:
            own = [self._write_pipeline(Path(made), storage), *([] if self.floors is None else [self.floors])]
            files = driver_files(own, self.pipeline, named_file(self.file).parent)
            there = ("--", *self._arguments(own[0].name))
        pod = DriverPod(master, there, files, self.packages, self.options.conf, Path(_application()))
        pod.run(self.pipeline.name)

    def _master(self) -> str:
        master = self.options.master
        if master is None:
            raise UserError("--deploy-mode cluster needs a cluster", remedy="give --master yarn or --master k8s://..")
        if master == YARN:
            require_conf_dir(os.environ)
        return master

    def _own_conf(self, master: str) -> Mapping[str, str]:
        if master != YARN:
            return {}
        chosen = with_defaults(self.options.conf)
        return {**executor_room(chosen), **driver_settings(chosen, follow=self.follow)}

    def _write_pipeline(self, folder: Path, storage: str) -> Path:
        """Writes the pipeline as it was read here: the cluster has neither this folder nor this environment."""
        document = self.pipeline.to_dict()
        document["checkpoint"] = {**document.get("checkpoint", {}), "storage": storage}
        path = folder / f"{named_file(self.file).stem}.yaml"
        path.touch(mode=0o600)  # it may contain passwords
        path.write_text(json.dumps(document).replace("${", "$${"), encoding="utf-8")
        return path

    def _arguments(self, name: str) -> Sequence[str]:
        """Returns the arguments of the command on the cluster. name: of the pipeline's file, in the driver's folder."""
        arguments = without(sys.argv[2:], (*WHERE, *SETTLED_HERE))
        arguments[arguments.index(self.file)] = name
        return changed(
            arguments,
            {
                "--savepoint": absolute,
                "--from-savepoint": absolute,
                "--until": lambda end: absolute(end) if "/" in end else end,
                "--floors": lambda path: Path(path).name,
            },
        )


def _end_alike(ended: Ended, end: DriverEnd | None) -> None:
    """Prints the driver's output, and exits with its exit code."""
    if end is not None:
        typer.echo(end.err, nl=False, err=True)
        typer.echo(end.out, nl=False)
        code = end.code
    else:
        code = FAILED if ended.code != 0 else 0
        if ended.application is not None:
            typer.echo(f"what it prints: yarn logs -applicationId {ended.application}", err=True)
    if code != 0:
        raise typer.Exit(code)


def _application() -> str:
    application = find_spec("headrace.cli.spark_application.headrace_replay")
    assert application is not None and application.origin is not None, "it is installed with this command"
    return application.origin
