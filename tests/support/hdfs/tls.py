"""NameNodes and DataNodes that serve HTTPS beside HTTP."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from support.certificates import Issued
from support.hadoop.settings import write_settings
from support.hdfs.site import HOST

_PASSWORD = "of-a-test"


def tls_settings(conf: Path, issued: Issued, port: int) -> dict[str, str]:
    """Settings of hdfs-site.xml; writes ssl-server.xml and its key store into `conf`. port: of the NameNode."""
    store = conf / "server.p12"
    key = serialization.load_pem_private_key(issued.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
    protection = serialization.BestAvailableEncryption(_PASSWORD.encode())
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"server", key, certificate, None, protection))
    write_settings(
        conf / "ssl-server.xml",
        {
            "ssl.server.keystore.location": str(store),
            "ssl.server.keystore.type": "PKCS12",
            "ssl.server.keystore.password": _PASSWORD,
            "ssl.server.keystore.keypassword": _PASSWORD,
        },
    )
    return {
        "dfs.http.policy": "HTTP_AND_HTTPS",
        "dfs.namenode.https-address": f"{HOST}:{port}",
        "dfs.datanode.https.address": f"{HOST}:0",
    }
