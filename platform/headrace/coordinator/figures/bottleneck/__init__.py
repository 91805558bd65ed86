"""Why a job is slow: from its figures of the last seconds to one verdict with evidence and a remedy. Pure.

`view` has the figures, `gather` takes them from the reports of slots, `decide` finds the verdict (`verdict`), and
`wording` writes it for people.
"""
