"""How a JVM with Hadoop's client logs in to Kerberos: by the ticket cache that it finds, or by a key table.

    HEADRACE_KERBEROS_PRINCIPAL, HEADRACE_KERBEROS_KEYTAB    of commands; without them, `kinit` has made a ticket
    KRB5_CONFIG, KRB5CCNAME                                  as for every program

The Kerberos of the JVM needs no library of the system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError
from headrace.yarn.jvm import Jvm
from headrace.yarn.refusals import refusals

PRINCIPAL_VARIABLE, KEYTAB_VARIABLE = "HEADRACE_KERBEROS_PRINCIPAL", "HEADRACE_KERBEROS_KEYTAB"


@dataclass(frozen=True, slots=True)
class KeytabLogin:
    """principal: such as `flights@EXAMPLE.ORG`; keytab: the file with its key."""

    principal: str
    keytab: Path


def login_of(environment: Mapping[str, str]) -> KeytabLogin | None:
    """The login that variables name; None: by the ticket cache. Raises UserError if one of them is missing."""
    principal, keytab = environment.get(PRINCIPAL_VARIABLE), environment.get(KEYTAB_VARIABLE)
    if not principal and not keytab:
        return None
    if not principal or not keytab:
        missing = KEYTAB_VARIABLE if principal else PRINCIPAL_VARIABLE
        raise UserError(f"{missing} is not set", remedy="set both, or neither to use the ticket of `kinit`")
    return KeytabLogin(principal, Path(keytab))


def is_secured(jvm: Jvm) -> bool:
    """Whether the cluster requires Kerberos."""
    with jvm.calls():
        information = jvm.java.org.apache.hadoop.security.UserGroupInformation
        information.setConfiguration(jvm.conf)
        return bool(information.isSecurityEnabled())


def log_in(jvm: Jvm, login: KeytabLogin) -> None:
    """Logs the JVM in, unless the cluster requires no Kerberos. Raises UserError without the file, ExternalError."""
    if not login.keytab.is_file():
        raise UserError(f"there is no key table {login.keytab}", remedy="correct keytab, or HEADRACE_KERBEROS_KEYTAB")
    if is_secured(jvm):
        with refusals(jvm, f"the login of {login.principal}"):
            information = jvm.java.org.apache.hadoop.security.UserGroupInformation
            information.loginUserFromKeytab(login.principal, str(login.keytab.absolute()))
