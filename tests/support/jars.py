"""Fetches the jars that tests run, the broker's and YARN's, where this user has them not: `python -m support.jars`."""

from headrace.local.broker.jars import ensure_jars
from headrace.local.broker.java import find_java
from support import yarn_jars

if __name__ == "__main__":
    java = find_java()
    ensure_jars(java)
    yarn_jars.classpath(java)
