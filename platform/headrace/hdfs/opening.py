"""Opens HDFS by a URL, as this process's environment says."""

from __future__ import annotations

import os

from headrace.hdfs.addresses import locate
from headrace.hdfs.connection import HdfsConnection, shared_connection
from headrace.hdfs.hadoop_settings import hadoop_settings
from headrace.hdfs.login import login_from_environment

ADDRESSES = "HEADRACE_WEBHDFS"


def open_hdfs(url: str) -> tuple[HdfsConnection, str]:
    """The file system of a URL, and the folder in it: absolute, without a trailing slash. Sends nothing.

    Raises UserError.
    """
    folder = locate(url, hadoop_settings(), os.environ.get(ADDRESSES))
    return shared_connection(folder.name_nodes, login_from_environment()), folder.path
