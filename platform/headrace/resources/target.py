"""The systems that run workers for a coordinator."""

from __future__ import annotations

from enum import StrEnum


class ResourceTarget(StrEnum):
    """The system that has the workers. LOCAL: processes of the coordinator's host; KUBERNETES: pods; YARN: containers
    of the application whose ApplicationMaster the coordinator is."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"
    YARN = "yarn"
