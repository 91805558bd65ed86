"""Fuzzers of kernels: random input against the reader or writer in Python that a kernel stands in for."""
