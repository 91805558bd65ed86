"""The settings of a test's HDFS, as files of its HADOOP_CONF_DIR."""

from __future__ import annotations

from pathlib import Path

HOST = "127.0.0.1"


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
