"""`python -m headrace.local.demo`: the old name of `python -m headrace_dev.demo`, for one version."""

from __future__ import annotations

from headrace_dev.demo.__main__ import main

if __name__ == "__main__":
    main()
