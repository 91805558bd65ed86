"""HDFS that requires Kerberos, and a Kerberos server (Apache Kerby) on loopback.

A JVM with both is driven by py4j: it has the Kerberos server, and is the client that logs in and is given tokens.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from headrace_dev.broker.java import find_java
from support.hadoop.jars import classpath
from support.hadoop.settings import write_settings
from support.hdfs.kerberos_jars import kerby_jars
from support.hdfs.server import DATA_NODE, NAME_NODE, Server, run_hadoop
from support.hdfs.site import HOST, common
from support.processes.running import wait_until
from support.reserved_port import reserved_port

REALM = "TEST.LOCAL"
SERVER, WEB, USER = "hdfs/localhost", "HTTP/localhost", "alice"


@dataclass(frozen=True, slots=True)
class KerberosHdfs:
    """A running file system. conf: its HADOOP_CONF_DIR; home: a folder that `USER` owns; krb5: the settings of
    Kerberos."""

    conf: Path
    home: str
    krb5: Path
    _jvm: Any
    _settings: Any
    _files: Any
    _kdc: Any

    def keytab(self, name: str) -> str:
        """The path of the key table of `SERVER` or `USER`."""
        return _keys(self.conf.parent, name)

    def ticket(self, file: Path) -> None:
        """Writes a ticket cache of `USER`, as `kinit` does."""
        client = self._kdc.getKrbClient()
        ticket = client.requestTgt(principal(USER), self._jvm.java.io.File(self.keytab(USER)))
        client.storeTicket(ticket, self._jvm.java.io.File(str(file)))

    def grant(self) -> Any:
        """A delegation token of `USER`, which its holder may renew and cancel: a Java object."""
        return self._files.getDelegationToken(USER)

    def cancel(self, token: Any) -> None:
        token.cancel(self._settings)

    def store(self, token: Any, file: Path) -> None:
        """Writes a token storage file, as `hdfs fetchdt` does."""
        credentials = self._jvm.org.apache.hadoop.security.Credentials()
        credentials.addToken(self._jvm.org.apache.hadoop.io.Text("hdfs"), token)
        credentials.addSecretKey(self._jvm.org.apache.hadoop.io.Text("secret"), b"key")
        credentials.writeTokenStorageFile(self._jvm.org.apache.hadoop.fs.Path(file.as_uri()), self._settings)


@contextmanager
def kerberos_hdfs(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[KerberosHdfs]:
    """Starts everything below `folder`, and ends it. more: settings of hdfs-site.xml."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (folder / "secret").write_text("signs cookies")
    with ExitStack() as stack:
        kdc, rpc, http = (stack.enter_context(reserved_port()) for _ in range(3))
        jvm = stack.enter_context(_java(folder))
        tickets = _start_kdc(jvm, folder, kdc, stack)
        krb5 = folder / "kdc" / "krb5.conf"
        core, hdfs = _site(folder, rpc, http)
        write_settings(conf / "core-site.xml", core)
        write_settings(conf / "hdfs-site.xml", {**hdfs, **(more or {})})
        java_options = (f"-Djava.security.krb5.conf={krb5}",)
        run_hadoop(conf, NAME_NODE, "-format", "-nonInteractive", java_options=java_options)
        servers = [
            Server(conf, main, folder / f"{name}.log", java_options)
            for main, name in ((NAME_NODE, "name-node"), (DATA_NODE, "data-node"))
        ]
        for server in servers:
            stack.callback(server.kill)
            server.start()
        yield _as_user(jvm, folder, conf, tickets)


@contextmanager
def _java(folder: Path) -> Iterator[Any]:
    java = find_java()
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j*.jar")
    with (folder / "jvm.log").open("wb") as log:
        port, secret = launch_gateway(
            jarpath=str(py4j),
            classpath=os.pathsep.join(map(str, (*kerby_jars(java), *classpath(java)))),
            java_path=str(java.program),
            javaopts=["-Xmx128m", "-XX:TieredStopAtLevel=1"],
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=log,
            redirect_stderr=log,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True))
        try:
            yield gateway.jvm
        finally:
            gateway.shutdown()


def _start_kdc(jvm: Any, folder: Path, port: int, stack: ExitStack) -> Any:
    """Starts the Kerberos server, with a key table for each principal, and its krb5.conf in `folder`/kdc."""
    work = folder / "kdc"
    work.mkdir()
    server = jvm.org.apache.kerby.kerberos.kerb.server.SimpleKdcServer()
    server.setWorkDir(jvm.java.io.File(str(work)))
    server.setKdcHost(HOST)
    server.setKdcRealm(REALM)
    server.setKdcTcpPort(port)
    server.setAllowUdp(False)
    server.init()
    server.start()
    stack.callback(server.stop)
    for name in (SERVER, WEB, USER):
        server.createPrincipal(principal(name))
        server.exportPrincipal(principal(name), jvm.java.io.File(_keys(folder, name)))
    return server


def _site(folder: Path, rpc: int, http: int) -> tuple[dict[str, str], dict[str, str]]:
    """core-site.xml and hdfs-site.xml."""
    core = {
        "fs.defaultFS": f"hdfs://{HOST}:{rpc}",
        "hadoop.tmp.dir": str(folder / "tmp"),
        "hadoop.security.authentication": "kerberos",
        # without this HTTP requests are believed whom they come from
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": principal(WEB),
        "hadoop.http.authentication.kerberos.keytab": _keys(folder, WEB),
        "hadoop.http.authentication.signature.secret.file": str(folder / "secret"),
    }
    hdfs = {
        **common(folder),
        "dfs.namenode.name.dir": str(folder / "name"),
        "dfs.namenode.http-address": f"{HOST}:{http}",
        "dfs.namenode.kerberos.principal": principal(SERVER),
        "dfs.namenode.keytab.file": _keys(folder, SERVER),
        "dfs.datanode.kerberos.principal": principal(SERVER),
        "dfs.datanode.keytab.file": _keys(folder, SERVER),
        "dfs.web.authentication.kerberos.principal": principal(WEB),
        "dfs.web.authentication.kerberos.keytab": _keys(folder, WEB),
        "dfs.block.access.token.enable": "true",
        # a DataNode would want ports below 1024, or TLS
        "ignore.secure.ports.for.testing": "true",
    }
    return core, hdfs


def _as_user(jvm: Any, folder: Path, conf: Path, kdc: Any) -> KerberosHdfs:
    """Logs in, first as the superuser, who makes the user's folder, then as the user."""
    hadoop = jvm.org.apache.hadoop
    krb5 = folder / "kdc" / "krb5.conf"
    jvm.java.lang.System.setProperty("java.security.krb5.conf", str(krb5))
    settings = hadoop.conf.Configuration()
    for name in ("core-site.xml", "hdfs-site.xml"):
        settings.addResource(hadoop.fs.Path((conf / name).as_uri()))
    logins = hadoop.security.UserGroupInformation
    logins.setConfiguration(settings)
    logins.loginUserFromKeytab(principal(SERVER), _keys(folder, SERVER))
    files = hadoop.fs.FileSystem.newInstance(settings)
    wait_until(lambda: _is_ready(files), f"HDFS is ready: see {folder}/*.log")
    files.mkdirs(hadoop.fs.Path(f"/{USER}"))
    files.setOwner(hadoop.fs.Path(f"/{USER}"), USER, "users")
    files.setPermission(hadoop.fs.Path(f"/{USER}"), hadoop.fs.permission.FsPermission("700"))
    logins.loginUserFromKeytab(principal(USER), _keys(folder, USER))
    own = hadoop.fs.FileSystem.newInstance(settings)
    return KerberosHdfs(conf, f"hdfs:///{USER}", krb5, jvm, settings, own, kdc)


def _is_ready(files: Any) -> bool:
    """Whether the NameNode has a DataNode, and has left safe mode. Pages would ask for Kerberos."""
    try:
        return len(files.getDataNodeStats()) == 1 and not files.isInSafeMode()
    except Py4JJavaError:
        return False  # nobody listens there yet


def principal(name: str) -> str:
    return f"{name}@{REALM}"


def _keys(folder: Path, name: str) -> str:
    return str(folder / f"{name.replace('/', '-')}.keytab")
