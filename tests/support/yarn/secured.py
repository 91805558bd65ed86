"""YARN that requires Kerberos, with an HDFS that does, and a cluster of headrace there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.yarn.kerberos import KEYTAB_VARIABLE, PRINCIPAL_VARIABLE
from support.hadoop.settings import read_settings
from support.hdfs.kerberos import SERVER, USER, KerberosHdfs, principal
from support.processes.running import Finished, finish, start_with
from support.yarn.cluster import Yarn, yarn_cluster
from support.yarn.session import YarnSession


@contextmanager
def secured_yarn(folder: Path, hdfs: KerberosHdfs) -> Iterator[Yarn]:
    """Starts it below `folder`, and ends it. Its servers are the principal that HDFS has."""
    core = {
        **read_settings(hdfs.conf / "core-site.xml"),
        **read_settings(hdfs.conf / "hdfs-site.xml"),
        # the test asks pages of YARN without Kerberos
        "hadoop.http.authentication.type": "simple",
        "hadoop.http.authentication.simple.anonymous.allowed": "true",
    }
    settings = {
        "yarn.resourcemanager.principal": principal(SERVER),
        "yarn.resourcemanager.keytab": hdfs.keytab(SERVER),
        "yarn.nodemanager.principal": principal(SERVER),
        "yarn.nodemanager.keytab": hdfs.keytab(SERVER),
        "yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled": "false",
        "yarn.log-aggregation-enable": "false",
    }
    options = [f"-Djava.security.krb5.conf={hdfs.krb5}"]
    with yarn_cluster(folder, nodes=1, settings=settings, core=core, java_options=options) as running:
        yield running


class SecuredSession(YarnSession):
    """One cluster of headrace, with everything on HDFS. Commands log in by the user's key table."""

    def __init__(self, yarn: Yarn, hdfs: KerberosHdfs, folder: Path, name: str) -> None:
        super().__init__(yarn, folder, name)
        self._hdfs = hdfs

    def place(self, name: str) -> str:
        """The URL of a folder of this cluster."""
        return f"{self._hdfs.home}/{self.folder.name}/{name}"

    def environment(self) -> Mapping[str, str]:
        """The login of the commands, and no token."""
        own = {
            "KRB5_CONFIG": str(self._hdfs.krb5),
            PRINCIPAL_VARIABLE: principal(USER),
            KEYTAB_VARIABLE: self._hdfs.keytab(USER),
        }
        return {**super().environment(), **own}

    def without_login(self, *arguments: str) -> Finished:
        """Runs a command of a user who has neither a ticket nor a key table."""
        environment = dict(self.environment())
        for name in (PRINCIPAL_VARIABLE, KEYTAB_VARIABLE):
            del environment[name]
        environment["KRB5CCNAME"] = str(self.folder / "no-tickets")
        return finish(start_with(environment, arguments, self.folder))

    def by_ticket(self, *arguments: str) -> Finished:
        """Runs a command of a user who has called `kinit`."""
        environment = dict(self.environment())
        for name in (PRINCIPAL_VARIABLE, KEYTAB_VARIABLE):
            del environment[name]
        tickets = self.folder / "tickets"
        self._hdfs.ticket(tickets)
        environment["KRB5CCNAME"] = str(tickets)
        return finish(start_with(environment, arguments, self.folder))

    def description(self, workers: int = 4, slots: int = 1, memory: str = "1Gi", **more: Any) -> str:
        """The coordinator has the key table."""
        own = {
            "ledger": self.place("ledger"),
            "staging": self.place("staging"),
            "env": {**self._times, "KRB5_CONFIG": str(self._hdfs.krb5)},
            "tls": True,
            "kerberos": {"principal": principal(USER), "keytab": self._hdfs.keytab(USER)},
        }
        return super().description(workers, slots, memory, **{**own, **more})
