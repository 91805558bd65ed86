"""The jars of a Kerberos server for tests: Apache Kerby's, 1.2 MB."""

from __future__ import annotations

from pathlib import Path

from headrace_dev.broker.ivy import JarSet, Module, ensure, read_list
from headrace_dev.broker.java import Java

_VERSION = "2.0.3"
_LISTED = """
75d8f752bd11269bf0c81f7353f088dedb1807a4bf49673b7c954bc4966bce8d  kerb-admin-2.0.3.jar
7bdd35366f17b5f213920cc065e27dd51a5d600cfed7d481d15e1f900fec2165  kerb-client-2.0.3.jar
99eeaaa54c3c60d8559e9ef683b64c007d8e060997ed150a33d4b80d58781205  kerb-common-2.0.3.jar
89247dda5c0e61e8c658ed36109ca6ec662ebae9fa2c40d937466035d023419b  kerb-core-2.0.3.jar
9e368bdc1e8a22e87c775e42d0a15599bdd9e16954f55a964f42ff1d9f94adb2  kerb-crypto-2.0.3.jar
1674b85cc3c3f3a353064b7f38624dcea0f4b27fa57019592bf724832cd8e9a4  kerb-identity-2.0.3.jar
4864f595851380fc0bb6295c228c7f71ef9b64cab73a8777d5426855da6dbc93  kerb-server-2.0.3.jar
5d6e018222ea62b502d6443f2cfcf46e763804d4beee1648819c61bd7fc69a48  kerb-simplekdc-2.0.3.jar
59da956d1c65f5ddfe43606ccfcccd1a4508936fb726d01b2f3753b292b97b34  kerb-util-2.0.3.jar
3f1532d2bfa0dd6fec171744a07990c0046e0f2f0f65ca21780b408a3827dbd2  kerby-asn1-2.0.3.jar
5137cab8fd70ce322f92a6ab7678f63d2660dab2c14d339dabae9f8e14067d06  kerby-config-2.0.3.jar
aec2d810b0ad3ff939bd4c70ebfce96539642c20f52cb3fbe4852dc827fec2c9  kerby-pkix-2.0.3.jar
65afc7a01a6d43b7db9e0a6768a750607fd318656da10a7f654414a5ccf5dc8a  kerby-util-2.0.3.jar
fce44a52fd2f5577f7bd82461429798af1b0ba92bf30739cb450a9c040833a89  kerby-xdr-2.0.3.jar
acdb18a364884296b8da9e9a192cc0fb460eaccadf3c0db1f2ef9b01d229472d  token-provider-2.0.3.jar
"""
_NAMES = [line.split()[1].removesuffix(f"-{_VERSION}.jar") for line in _LISTED.split("\n") if line]
_KERBY = JarSet(
    f"kerby-{_VERSION}",
    # without what only its command lines and other back ends use
    tuple(Module("org.apache.kerby", name, _VERSION, alone=True) for name in _NAMES),
    read_list(_LISTED),
)


def kerby_jars(java: Java) -> list[Path]:
    """Fetched from Maven Central where this user has them not."""
    return list(ensure(_KERBY, java))
