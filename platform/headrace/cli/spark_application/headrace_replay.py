"""`headrace replay` as an application of spark-submit, which chooses where it runs:

    spark-submit --master yarn --deploy-mode cluster --files delays.yaml --archives env.tar.gz#environment \\
        headrace_replay.py -- delays.yaml --until latest

The file is self-contained: a copy may lie anywhere where headrace is installed. Its first option may be `--end-at URL`:
the object for its exit code and output.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager


def main() -> None:
    """Runs the command with the arguments after this file on spark-submit's command line."""
    from headrace.spark.cluster.driver_files import last_word, unpack_files

    # the modules beside the pipeline file, as unpacked by `--deploy-mode cluster`
    folder = unpack_files()
    sys.path.insert(0, "headrace-pipeline-code" if folder is None else str(folder))
    from headrace.cli.app import main as headrace
    from headrace.spark.cluster.driver_files import end_told

    arguments = sys.argv[1:]
    told: AbstractContextManager[None] = last_word()
    if arguments[:1] == ["--end-at"]:
        told, arguments = end_told(arguments[1]), arguments[2:]
    # some of Spark's launchers drop the `--`
    sys.argv[1:] = ["replay", *(arguments[1:] if arguments[:1] == ["--"] else arguments)]
    with told:
        headrace()


if __name__ == "__main__":
    main()
