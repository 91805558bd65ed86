"""Forks processes from a template: the template (`process`), which also makes a fork equal a fresh interpreter
(with `title`), its owner's side (`client`), and the check that a process may fork (`processes.forking`)."""
