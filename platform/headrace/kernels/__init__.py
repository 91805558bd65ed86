"""Hot loops compiled from C: each reads and writes buffers that it receives by address and length.

A kernel returns columns and a doubt mask. The exact reader in Python decodes the rows in doubt, so a kernel must be
correct, but not complete. `compiling` builds the kernels with the package; `library` loads them; each kernel has one
module that declares its arguments. Without kernels the results are the same, and slower. Reasons: docs/decisions/0023.
"""
