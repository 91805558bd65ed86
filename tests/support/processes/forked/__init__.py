"""`headrace` commands that are forked from a template instead of started: an interpreter less for each.

    pytest ── Command ══ socket pair ══> server ── TemplateStarter ──> template ── fork ──> headrace <arguments>

The server is a process of its own, the owner of the commands: it adopts what they leave running, and collects the exit
codes of all of it. pytest stays an ordinary process. One real start of each verb is in `integration/cli/test_starts`.
"""
