"""`headrace replay` as an application of spark-submit, which says where it runs:

    spark-submit --master yarn --deploy-mode cluster --files delays.yaml --archives env.tar.gz#environment \\
        headrace_replay.py -- delays.yaml --until latest

It is whole by itself: a copy of it may lie anywhere where headrace is installed.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command with what stands behind this file on spark-submit's command line."""
    # modules beside the pipeline file, where `--deploy-mode cluster` has brought them
    sys.path.insert(0, "headrace-pipeline-code")
    from headrace.cli.app import main as headrace

    arguments = sys.argv[1:]
    sys.argv[1:] = ["replay", *(arguments[1:] if arguments[:1] == ["--"] else arguments)]
    headrace()


if __name__ == "__main__":
    main()
