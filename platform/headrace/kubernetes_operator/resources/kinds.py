"""The kinds of custom resources, as the API server and kubectl name them."""

from __future__ import annotations

from dataclasses import dataclass

GROUP, VERSION = "headrace.dev", "v1alpha1"
API = f"{GROUP}/{VERSION}"
FINALIZER = f"{GROUP}/operator"
"""The API server keeps an object with it until the operator has ended what belongs to the object."""
JOB_LABEL = f"{GROUP}/job"
"""On snapshots: the HeadraceJob that they were made for."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of custom resource."""

    name: str
    plural: str
    short: str

    @property
    def singular(self) -> str:
        """Its name in commands of kubectl."""
        return self.name.lower()

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


CLUSTER = Kind("HeadraceCluster", "headraceclusters", "hrc")
JOB = Kind("HeadraceJob", "headracejobs", "hrj")
SNAPSHOT = Kind("HeadraceSnapshot", "headracesnapshots", "hrs")
KINDS = (CLUSTER, JOB, SNAPSHOT)
