"""From URLs to NameNodes."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.hdfs.addresses import HdfsFolder, locate

ONE = {"fs.defaultFS": "hdfs://nn:8020", "dfs.namenode.http-address": "0.0.0.0:50070"}
PAIR = {
    "fs.defaultFS": "hdfs://prod",
    "dfs.nameservices": "prod, other",
    "dfs.ha.namenodes.prod": "a,b",
    "dfs.namenode.rpc-address.prod.a": "nn1:8020",
    "dfs.namenode.rpc-address.prod.b": "nn2:9000",
    "dfs.namenode.http-address.prod.a": "nn1:9870",
    "dfs.namenode.https-address.prod.a": "nn1:9871",
    "dfs.namenode.http-address.prod.b": "0.0.0.0:9999",
    "dfs.namenode.rpc-address.other": "nn3",
    "dfs.namenode.http-address.other": "web3:1234",
}


@pytest.mark.parametrize(
    ("url", "settings", "name_nodes"),
    [
        ("webhdfs://nn/a", {}, ["http://nn:9870"]),
        ("webhdfs://nn:50070/a", {}, ["http://nn:50070"]),
        ("swebhdfs://nn/a", {}, ["https://nn:9871"]),
        ("swebhdfs://nn:1/a", ONE, ["https://nn:1"]),
        ("webhdfs://[::1]/a", {}, ["http://[::1]:9870"]),
        ("hdfs://nn/a", {}, ["http://nn:9870"]),
        ("hdfs://nn:8020/a", {}, ["http://nn:9870"]),
        ("hdfs://nn:8020/a", ONE, ["http://nn:50070"]),
        ("hdfs://nn/a", ONE, ["http://nn:50070"]),
        ("hdfs:///a", ONE, ["http://nn:50070"]),
        ("hdfs://elsewhere/a", ONE, ["http://elsewhere:9870"]),
        ("hdfs://nn:8020/a", {**ONE, "dfs.http.policy": "HTTPS_ONLY"}, ["https://nn:9871"]),
        ("hdfs://prod/a", PAIR, ["http://nn1:9870", "http://nn2:9999"]),
        ("hdfs:///a", PAIR, ["http://nn1:9870", "http://nn2:9999"]),
        ("webhdfs://prod/a", PAIR, ["http://nn1:9870", "http://nn2:9999"]),
        ("swebhdfs://prod/a", PAIR, ["https://nn1:9871", "https://nn2:9871"]),
        ("hdfs://other/a", PAIR, ["http://web3:1234"]),
        ("hdfs://nn3:8020/a", PAIR, ["http://web3:1234"]),
        ("hdfs://nn2:9000/a", PAIR, ["http://nn2:9999"]),
    ],
)
def test_name_nodes_of_a_url(url: str, settings: dict[str, str], name_nodes: list[str]) -> None:
    assert locate(url, settings) == HdfsFolder(tuple(name_nodes), "/a")


def test_given_addresses_replace_what_settings_say() -> None:
    given = "http://one:1, https://two:2/"
    assert locate("hdfs://prod/a", PAIR, given).name_nodes == ("http://one:1", "https://two:2")
    assert locate("webhdfs://nn/a", PAIR, given).name_nodes == ("http://nn:9870",)
    with pytest.raises(UserError, match="HEADRACE_WEBHDFS has 'one:1'"):
        locate("hdfs://prod/a", PAIR, "one:1")


@pytest.mark.parametrize(
    ("url", "path"), [("nn", ""), ("nn/", ""), ("nn/a/b/", "/a/b"), ("nn//a b/50%#1", "/a b/50%#1")]
)
def test_paths_are_taken_as_they_are(url: str, path: str) -> None:
    assert locate(f"webhdfs://{url}", {}).path == path


@pytest.mark.parametrize("settings", [{}, {"fs.defaultFS": "file:///"}, {"fs.defaultFS": "hdfs:///"}])
def test_a_url_without_a_name_node(settings: dict[str, str]) -> None:
    with pytest.raises(UserError, match="names no NameNode") as caught:
        locate("hdfs:///a", settings)
    assert "HADOOP_CONF_DIR" in str(caught.value.remedy)
    with pytest.raises(UserError, match="names no NameNode"):
        locate("webhdfs:///a", ONE)
