"""The session cluster of a home: a coordinator and workers as processes of this host that outlive the command.

start(home, ..)   starts missing processes; running ones stay
stop(home)        requests the end, waits, and kills the remaining processes
status(home)      returns the recorded processes, and which of them run
"""

from headrace.local.cluster.commands import page_link
from headrace.local.cluster.lifecycle import start, status, stop
from headrace.local.cluster.record import ClusterRecord, ClusterStatus, Election, Member

__all__ = ["ClusterRecord", "ClusterStatus", "Election", "Member", "page_link", "start", "status", "stop"]
