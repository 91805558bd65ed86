"""Waits for an executor before the first job on Kubernetes, and reports the reason if none starts. Spark itself waits
forever, without a message.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.core.errors import UserError
from headrace.spark.cluster.kubernetes_pods import CLIENT, IN_DRIVER, Pods, PodStatus
from headrace.spark.levels.progress import Tell

if TYPE_CHECKING:
    from pyspark import SparkContext

FORGIVEN_S = 30.0
"""How long pulls of an image may fail before the wait ends with an error."""
_LOOK_S = 5.0
_PAUSE_S = 0.2
_APPLICATION = "spark-app-selector"


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
