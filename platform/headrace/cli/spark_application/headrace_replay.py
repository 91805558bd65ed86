"""`headrace replay` as an application of spark-submit, which says where it runs:

    spark-submit --master yarn --deploy-mode cluster --files delays.yaml --archives env.tar.gz#environment \\
        headrace_replay.py -- delays.yaml --until latest

It is whole by itself: a copy of it may lie anywhere where headrace is installed. First may stand
`--end-at URL`: an object that tells how it ended.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager


def main() -> None:
    """Runs the command with what stands behind this file on spark-submit's command line."""
    from headrace.cli.spark.pod_result import last_word
    from headrace.spark.cluster.driver_files import unpack_files

    # modules beside the pipeline file, where `--deploy-mode cluster` has brought them
    folder = unpack_files()
    sys.path.insert(0, "headrace-pipeline-code" if folder is None else str(folder))
    from headrace.cli.app import main as headrace
    from headrace.cli.spark.output_copy import end_told

    arguments = sys.argv[1:]
    told: AbstractContextManager[None] = last_word()
    if arguments[:1] == ["--end-at"]:
        told, arguments = end_told(arguments[1]), arguments[2:]
    # some of Spark's ways here leave it out
    sys.argv[1:] = ["replay", *(arguments[1:] if arguments[:1] == ["--"] else arguments)]
    with told:
        headrace()


if __name__ == "__main__":
    main()
