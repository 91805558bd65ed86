"""The session cluster of a home: a coordinator and workers as processes of this host that outlive the command.

start(home, ..)   starts what is missing; running processes stay
stop(home)        requests the end, waits, and kills what remains
status(home)      returns what is recorded, and what of it runs
"""

from headrace.local.cluster.lifecycle import start, status, stop
from headrace.local.cluster.record import ClusterRecord, ClusterStatus, Member

__all__ = ["ClusterRecord", "ClusterStatus", "Member", "start", "status", "stop"]
