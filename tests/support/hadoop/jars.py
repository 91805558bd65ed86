"""The jars of a YARN cluster for tests: its servers and what they need beside pyspark's own jars of the same Hadoop."""

from __future__ import annotations

from pathlib import Path

import pyspark

from headrace_dev.broker.ivy import JarSet, Module, ensure, read_list
from headrace_dev.broker.java import Java

HADOOP_VERSION = "3.5.0"
"""pyspark's."""
_LISTED = """
bdc723e20834832ac6af136cb5b5ff05e43b71d4fa151cc6510d9212ee086e63  bcpkix-jdk18on-1.82.jar
14cde2fdfaa8890480a8e5b67aceef0c90f96682c1e23c133bafdc9e0b3255ce  bcprov-jdk18on-1.82.jar
4420691958ad1c0ba275a6d6d8a6317adbdbdc9277055b6a72aa89c88cda8c7d  bcutil-jdk18on-1.82.jar
06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c  hadoop-client-minicluster-3.5.0.jar
"""
_YARN = JarSet(
    f"yarn-{HADOOP_VERSION}",
    (
        # it names Hadoop's client, which pyspark has
        Module("org.apache.hadoop", "hadoop-client-minicluster", HADOOP_VERSION, alone=True),
        # of the resource manager's own certificates
        Module("org.bouncycastle", "bcpkix-jdk18on", "1.82"),
    ),
    read_list(_LISTED),
)
_OF_PYSPARK = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j", "log4j-", "snappy-java")


def classpath(java: Java) -> list[Path]:
    """What ResourceManager and NodeManager run with, fetched from Maven Central (66 MB) where this user has it not."""
    jars = Path(pyspark.__file__).parent / "jars"
    assert (jars / f"hadoop-client-api-{HADOOP_VERSION}.jar").exists(), "pyspark has another Hadoop: name that one here"
    ours = [path for stem in _OF_PYSPARK for path in sorted(jars.glob(f"{stem}*.jar"))]
    return [*ensure(_YARN, java), *ours]
