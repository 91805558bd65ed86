"""`headrace replay --deploy-mode cluster`: runs the same command on the cluster by spark-submit, and returns its output
and exit code.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from headrace.checkpoint.paths import absolute
from headrace.cli.errors import FAILED
from headrace.cli.spark.settings import BEGINS_ANEW, Teller, interruptible
from headrace.client.submission import job_code
from headrace.core.errors import ExternalError, UserError
from headrace.core.files.named_file import named_file
from headrace.core.settings import Home
from headrace.plan.logical import plan_logical
from headrace.spark.cluster import cluster_settings
from headrace.spark.cluster.driver_files import CONF_THERE, DriverEnd, end_url, write_conf_folder
from headrace.spark.cluster.driver_jvm import LOG4J, LOG4J_CHOICES
from headrace.spark.cluster.kubernetes_pods import FORGIVEN_S, Pods, PodStatus, pods_from_here
from headrace.spark.cluster.packaging import Packages
from headrace.spark.cluster.session import require_master
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
        if cluster_settings.is_kubernetes(master):
            self._run_as_pod(master, storage)
            return
        self.options.require_reachable(master, storage)
        conf = {**self._own_conf(master), **self.options.conf}
        waited = cluster_settings.with_defaults(conf).get(NOT_WAITED_FOR[0]) != NOT_WAITED_FOR[1]
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
        self.options.require_reachable(master, storage, roles=(cluster_settings.DRIVER, cluster_settings.EXECUTOR))
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
        if master == cluster_settings.YARN:
            cluster_settings.require_conf_dir(os.environ)
        return master

    def _own_conf(self, master: str) -> Mapping[str, str]:
        if master != cluster_settings.YARN:
            return {}
        chosen = cluster_settings.with_defaults(self.options.conf)
        return {
            **cluster_settings.executor_room(chosen),
            **cluster_settings.driver_settings(chosen, follow=self.follow),
        }

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


# ---- a driver on Kubernetes ------------------------------------------------------------------------------------------


_LOOK_S = 1.0
_WAIT = "spark.kubernetes.submission.waitAppCompletion"
_OPTIONS = "SPARK_SUBMIT_OPTS"


@dataclass(frozen=True, slots=True)
class DriverPod:
    """A driver that will run as a pod. This process waits for it and exits with its exit code.

    The pod's configuration contains the pipeline and the modules beside it, so they need no upload path.

    arguments   for the application; files: path -> content, for its working folder
    conf        the user's
    """

    master: str
    arguments: tuple[str, ...]
    files: Mapping[str, bytes]
    packages: Packages
    conf: Mapping[str, str]
    application: Path

    def run(self, pipeline: str) -> None:
        """Submits the pod, waits for its end, prints its result. Raises typer.Exit with its exit code unless that is 0;
        UserError, ExternalError if it does not start.
        """
        known = cluster_settings.with_defaults(self.conf)
        cluster_settings.require_image((cluster_settings.DRIVER, cluster_settings.EXECUTOR), known)
        self._require_upload(known)
        require_master(self.master)
        name = known.get(cluster_settings.POD_NAME) or cluster_settings.pod_name(pipeline, secrets.token_hex(4))
        spark_submit = installed_spark_submit()
        with TemporaryDirectory(prefix="headrace-driver-") as made:
            self._submit(spark_submit, name, Path(made))
        teller = Teller()
        with pods_from_here(str(Path(spark_submit).parents[1]), self.master, known) as pods:
            log = f"kubectl --namespace {pods.namespace} logs --follow {name}"
            teller.say(f"the driver is pod {name}; its log: {log}")
            with interruptible(teller, BEGINS_ANEW):
                try:
                    end = _end_of(pods, name, teller)
                except KeyboardInterrupt:
                    teller.say(f"ending pod {name}")
                    pods.delete(name)
                    raise
        print_end(end, log)

    def _submit(self, spark_submit: str, name: str, made: Path) -> None:
        folder = made / "conf"
        write_conf_folder(folder, cluster_settings.conf_folder(), self.files, self.application)
        there = f"local://{CONF_THERE}/{self.application.name}"
        conf = {
            **cluster_settings.pod_room(cluster_settings.with_defaults(self.conf)),
            **self.conf,
            cluster_settings.POD_NAME: name,
            _WAIT: "false",
        }
        command = Submission(self.master, there, self.arguments, self.packages, (), conf).command(spark_submit)
        typer.echo(shlex.join(command), err=True)
        environment = os.environ | {"SPARK_CONF_DIR": str(folder)}
        if not (folder / "log4j2.properties").exists():
            quiet = made / "log4j2.properties"
            quiet.write_text(LOG4J, encoding="utf-8")
            environment[_OPTIONS] = f"{os.environ.get(_OPTIONS, '')} -D{LOG4J_CHOICES[0]}={quiet}".strip()
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise not_submitted(done.stderr)

    def _require_upload(self, known: Mapping[str, str]) -> None:
        if cluster_settings.UPLOAD_PATH in known:
            return
        for path in (*self.packages.py_files, *self.packages.archives):
            if "://" not in path or path.startswith("file:"):
                raise UserError(
                    f"{path} is a file of this host, which pods do not reach",
                    remedy=f"put it into the image (local:///path), or name a folder that both sides reach: "
                    f"--conf {cluster_settings.UPLOAD_PATH}=s3a://bucket/prefix",
                )


def driver_files(own: Iterable[Path], pipeline: Pipeline, folder: Path) -> dict[str, bytes]:
    """Returns Headrace's own files, and the modules in the pipeline's folder that its functions need. Raises
    UserError.
    """
    files = {path.name: path.read_bytes() for path in own}
    for archive in job_code(pipeline, folder):
        with tarfile.open(fileobj=io.BytesIO(archive.content)) as modules:
            for entry in modules.getmembers():
                content = modules.extractfile(entry)
                if content is not None:
                    files[entry.name] = content.read()
    return files


def _end_of(pods: Pods, name: str, teller: Teller) -> PodStatus:
    """Waits for the pod's end, and prints its status meanwhile."""
    told, good_s = "", time.monotonic()
    while True:
        try:
            status = pods.status(name)
        except ExternalError:
            if time.monotonic() > good_s + FORGIVEN_S:
                raise
            time.sleep(_LOOK_S)
            continue
        if status is None:
            raise ExternalError(f"pod {name} is gone: it was deleted")
        if status.phase in {"Succeeded", "Failed"}:
            return status
        if status.image_trouble is None:
            good_s = time.monotonic()
        elif time.monotonic() > good_s + FORGIVEN_S:
            raise UserError(
                f"pod {name} has no image: {status.image_trouble}",
                remedy=f"mend it, and delete that pod: kubectl --namespace {pods.namespace} delete pod {name}",
            )
        now = ", ".join(part for part in (status.phase, *(status.waiting or ())[:1]) if part)
        if now != told:
            told = now
            teller.say(f"driver: {now}")
        time.sleep(_LOOK_S)


def print_end(end: PodStatus, log: str) -> None:
    """Prints the pod's termination message: the command's result, or its error. Raises typer.Exit with its exit code.

    log   the command that shows its log
    """
    if end.phase == "Succeeded":
        typer.echo(end.message.rstrip())
        return
    if _is_document(end.message):
        typer.echo(end.message.rstrip())
    else:
        typer.echo(f"error: {end.message.rstrip() or 'the driver failed'}", err=True)
    typer.echo(f"driver: Failed, exit code {end.exit_code}; {log}", err=True)
    raise typer.Exit(end.exit_code or FAILED)


def _is_document(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def not_submitted(said: str) -> ExternalError:
    """Returns the error for a failed spark-submit, from its stderr."""
    lines = [line.strip() for line in said.splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if "Exception" in line and not line.startswith("at ")]
    messages = [line.partition("Message: ")[2] for line in causes if "Message: " in line]
    reason = (messages or causes or lines or ["it says nothing"])[0]
    failure = ExternalError(f"spark-submit failed: {reason[:500]}", remedy="it has asked the cluster for a driver pod")
    failure.add_note(said[-20_000:])
    return failure
