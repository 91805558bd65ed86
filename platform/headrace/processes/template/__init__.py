"""Forks processes from a template: the template (`process`), its owner's side (`client`), the check that a process may
fork (`processes.forking`), and what makes a fork equal a fresh interpreter (`child_reset`, `title`)."""
