"""The Kubernetes operator: keeps clusters, jobs and snapshots as their resources describe them.

resources     specs and statuses of the three kinds: data and its checks
definitions   their CustomResourceDefinitions, generated from those models
decisions     what to record and what to do next, from a spec, a status and an observation; pure
shell         observes, records and acts; watches by kopf, leads by a Lease
"""
