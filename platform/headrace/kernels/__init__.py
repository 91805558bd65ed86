"""Hot loops compiled from C: each reads and writes buffers that it receives by address and length.

A kernel returns columns and a doubt mask. Rows that it is not sure of go to the exact reader in Python, so a kernel
has to be right, never complete. `compiling` builds them with the package; `library` loads them; one module a kernel
states its arguments. Without them everything works, slower. docs/decisions/0023 has the reasons.
"""
