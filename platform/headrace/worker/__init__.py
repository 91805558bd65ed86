"""The worker: code of subtasks (sources, task loop, sinks), slot processes, their state, and the supervisor of slots.

Every engine uses `task`. The in-process engine (`local.engine`) also uses `slot.slice`; the rest runs in worker and
slot processes only.
"""
