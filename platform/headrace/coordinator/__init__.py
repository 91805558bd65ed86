"""The control process: dispatcher, one job master per job (a pure machine and its driver), slots, connector hosts."""
