"""The settings of a test's HDFS, as files of its HADOOP_CONF_DIR."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

HOST = "127.0.0.1"


def write_site(path: Path, settings: Mapping[str, str]) -> None:
    lines = (
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))


def common(folder: Path) -> dict[str, str]:
    """hdfs-site.xml of all servers."""
    return {
        "dfs.replication": "1",
        "dfs.permissions.superusergroup": "supergroup",
        "dfs.datanode.hostname": HOST,
        "dfs.datanode.address": f"{HOST}:0",
        "dfs.datanode.ipc.address": f"{HOST}:0",
        "dfs.datanode.http.address": f"{HOST}:0",
        "dfs.datanode.data.dir": str(folder / "data"),
        # a NameNode leaves safe mode as soon as the DataNode has reported
        "dfs.namenode.safemode.extension": "0",
        "dfs.heartbeat.interval": "1",
        # a writer that asks the NameNode before the DataNode has reported the block asks again so much later
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
    }
