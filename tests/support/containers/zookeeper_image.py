"""An image that stands for ZooKeeper's official one: it reads the same variables, and runs the jars of pyspark.

It is built on `machine_image`, so its containers see this machine's programs.
"""

from __future__ import annotations

from functools import cache

from headrace_dev.broker.java import find_java
from support.containers.engine import built_image
from support.containers.machine_image import machine_image
from support.leadership.zookeeper import MAIN, classpath

_ENTRY = """\
#!/bin/sh
set -e
mkdir -p /data
echo "$ZOO_MY_ID" > /data/myid
{{
    printf '%s\\n' tickTime=2000 initLimit=5 syncLimit=2 dataDir=/data admin.enableServer=false standaloneEnabled=true
    printf '%s\\n' $ZOO_SERVERS
}} > /data/zoo.cfg
exec {java} -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp {jars} {main} /data/zoo.cfg
"""
_RECIPE = """\
FROM {base}
COPY entry /entry
ENV PATH=/usr/bin:/bin
ENTRYPOINT ["/entry"]
"""


@cache
def zookeeper_image() -> str:
    """The id of this session's image."""
    entry = _ENTRY.format(java=find_java().program.resolve(), jars=classpath(), main=MAIN)
    return built_image(_RECIPE.format(base=machine_image()), {"entry": entry})
