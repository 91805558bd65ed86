"""Pods of a Kubernetes cluster, read by the client that Spark ships: it authenticates as Spark does. The only module
that knows how to make that client.

Before the first job, `await_executors` waits for an executor, and reports the reason if none starts. Spark itself waits
forever, without a message.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.core.errors import ExternalError, UserError
from headrace.jvm.gateway import ignored_by_children, open_gateway
from headrace.spark.cluster.cluster_settings import NAMESPACE, SCHEME
from headrace.spark.cluster.progress import Tell

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark import SparkContext


SUBMISSION = "spark.kubernetes.authenticate.submission"
CLIENT = "spark.kubernetes.authenticate"
IN_DRIVER = "spark.kubernetes.authenticate.driver.mounted"
"""Prefixes of the settings with credentials: for submitting a driver, for a driver on this host, for a driver in a
pod.
"""
IMAGE_TROUBLE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
FORGIVEN_S = 30.0
"""How long pulls of an image may fail before the wait ends with an error."""
_LOOK_S = 5.0
_PAUSE_S = 0.2
_APPLICATION = "spark-app-selector"


@dataclass(frozen=True, slots=True)
class PodStatus:
    """The status of a pod.

    phase       Pending, Running, Succeeded, Failed; Unknown
    waiting     why its container waits: reason and message; None: it does not wait
    exit_code   of its container; None: it has not ended
    message     the container's termination message
    """

    name: str
    phase: str
    waiting: tuple[str, str] | None
    exit_code: int | None
    message: str

    @staticmethod
    def of(document: Mapping[str, Any]) -> PodStatus:
        """Returns the status in the API's document."""
        status = document.get("status") or {}
        states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
        waiting = next((state["waiting"] for state in states if state.get("waiting")), None)
        ended: Mapping[str, Any] = next((state["terminated"] for state in states if state.get("terminated")), {})
        return PodStatus(
            name=document["metadata"]["name"],
            phase=status.get("phase") or "Unknown",
            waiting=None if waiting is None else (waiting.get("reason") or "", waiting.get("message") or ""),
            exit_code=ended.get("exitCode"),
            message=ended.get("message") or status.get("message") or "",
        )

    @property
    def image_trouble(self) -> str | None:
        """Why its image cannot be pulled; None: it can, as far as is known."""
        if self.waiting is None or self.waiting[0] not in IMAGE_TROUBLE:
            return None
        return ": ".join(part for part in self.waiting if part)


class Pods:
    """The pods of one namespace. Methods raise ExternalError if the cluster does not answer."""

    def __init__(self, jvm: JVMView, master: str, conf: Mapping[str, str], who: str) -> None:
        self._jvm = jvm
        self.namespace = conf.get(NAMESPACE) or "default"
        settings = jvm.org.apache.spark.SparkConf(False)  # noqa: FBT003 - a constructor of Java
        for name, value in conf.items():
            settings.set(name, value)
        kubernetes = jvm.org.apache.spark.deploy.k8s
        types = getattr(kubernetes, "SparkKubernetesClientFactory$ClientType$")
        types = getattr(types, "MODULE$")
        certificate = jvm.scala.Option.apply(jvm.java.io.File(_CA) if who == IN_DRIVER else None)
        with _failures():
            self._client = kubernetes.SparkKubernetesClientFactory.createKubernetesClient(
                master.removeprefix(SCHEME),
                jvm.scala.Option.apply(self.namespace),
                who,
                types.Submission() if who == SUBMISSION else types.Driver(),
                settings,
                certificate,
            )

    def status(self, name: str) -> PodStatus | None:
        """Returns the status of one pod, or None if there is no such pod."""
        with _failures():
            pod = self._client.pods().inNamespace(self.namespace).withName(name).get()
            return None if pod is None else self._read(pod)

    def labelled(self, label: str, value: str) -> list[PodStatus]:
        """Returns the status of all pods with that label."""
        with _failures():
            pods = self._client.pods().inNamespace(self.namespace).withLabel(label, value).list().getItems()
            # by index: py4j's iterator ends with an exception, which pyspark translates only while a SparkContext
            # exists
            return [self._read(pods.get(number)) for number in range(pods.size())]

    def delete(self, name: str) -> None:
        """Deletes a pod, with everything that it owns."""
        with _failures():
            self._client.pods().inNamespace(self.namespace).withName(name).delete()

    def _read(self, pod: object) -> PodStatus:
        text = self._jvm.io.fabric8.kubernetes.client.utils.Serialization.asJson(pod)
        return PodStatus.of(json.loads(text))


@contextmanager
def pods_from_here(spark_home: str, master: str, conf: Mapping[str, str]) -> Iterator[Pods]:
    """The pods as seen with the credentials for submitting, through a JVM that ends with the context. Raises
    ExternalError.
    """
    from py4j.java_gateway import launch_gateway

    jars = Path(spark_home) / "jars"
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if os.environ.get("JAVA_HOME") else "java"
    with ignored_by_children():
        port, token, process = launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            classpath=f"{jars}/*",
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
            java_path=str(java),
            javaopts=["-Xmx256m"],
        )
    gateway = open_gateway(port, token)
    try:
        yield Pods(gateway.jvm, master, conf, SUBMISSION)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(30)


@contextmanager
def _failures() -> Iterator[None]:
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as cause:
        message = cause.java_exception.toString().partition("\n")[0]
        raise ExternalError(f"Kubernetes does not tell of its pods: {message[:500]}") from cause
    except Py4JError as cause:
        raise ExternalError(f"Kubernetes does not tell of its pods: {cause}") from cause


def await_executors(context: SparkContext, tell: Tell | None) -> None:
    """Returns when an executor runs, or at once if Spark allocates executors dynamically. Raises UserError if their
    image cannot be pulled, ExternalError if Kubernetes does not answer.
    """
    conf = dict(context.getConf().getAll())
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    pods: Pods | None = None
    good_s = time.monotonic()
    look_s = good_s + _LOOK_S
    while len(context._jsc.sc().statusTracker().getExecutorInfos()) <= 1:  # the list contains the driver
        now_s = time.monotonic()
        if now_s >= look_s:
            look_s = now_s + _LOOK_S
            pods = pods or Pods(context._jvm, context.master, conf, _who(conf))
            statuses = [each for each in pods.labelled(_APPLICATION, context.applicationId) if "-exec-" in each.name]
            if not any(each.image_trouble for each in statuses):
                good_s = now_s
            elif now_s > good_s + FORGIVEN_S:
                raise no_image(statuses)
            if tell is not None:
                tell(state_of(statuses))
        time.sleep(_PAUSE_S)


def no_image(statuses: Sequence[PodStatus]) -> UserError:
    """Returns the error for executors without an image."""
    trouble = next(each for each in statuses if each.image_trouble)
    return UserError(
        f"pod {trouble.name} has no image: {trouble.image_trouble}",
        remedy="name one that the nodes can pull: --conf spark.kubernetes.container.image=..",
    )


def state_of(statuses: Sequence[PodStatus]) -> str:
    """Returns one line with the reason for the wait."""
    if not statuses:
        return "waiting for executors: there is no pod yet; quotas, or what the driver may create, may be why"
    waited = "; ".join(
        f"{each.name} {each.phase}" + ("" if each.waiting is None else f" ({each.waiting[0]})") for each in statuses
    )
    return f"waiting for executors: {waited}"[:500]


def _who(conf: Mapping[str, str]) -> str:
    return IN_DRIVER if conf.get("spark.kubernetes.submitInDriver") == "true" else CLIENT
