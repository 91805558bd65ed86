"""Starts the processes that run rows and connectors: slots and connector hosts.

    owner (worker, coordinator, `headrace run`)
      │  Starter.start(order) -> Child
      ├── SpawnStarter       a fresh interpreter for each order
      └── TemplateStarter ══ socket pair ══> template: everything is imported, nothing has run
                                                │ fork, fork
                                                └──> the child, whose parent is the owner

A `ProcessOrder` names a program: a module with `main(arguments)`, which ends the process, and `preload()`, which
imports what the program needs. Both starters run the same program, so a slot does not know how it was started.

This package knows no slot, no connector and no job.
"""
