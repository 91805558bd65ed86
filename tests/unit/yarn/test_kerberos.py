"""The login of commands, as variables name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.yarn.kerberos import KEYTAB_VARIABLE, PRINCIPAL_VARIABLE, KeytabLogin, login_of, with_tokens


def test_a_key_table_takes_both_variables() -> None:
    assert login_of({}) is None
    assert login_of({PRINCIPAL_VARIABLE: "a@B", KEYTAB_VARIABLE: "/a"}) == KeytabLogin("a@B", Path("/a"))
    for name in (PRINCIPAL_VARIABLE, KEYTAB_VARIABLE):
        with pytest.raises(UserError, match="is not set"):
            login_of({name: "x"})


def test_only_file_systems_of_hadoop_give_tokens() -> None:
    urls = ("hdfs://prod/staging", "s3://bucket/ledger", None, "/shared", "hdfs://prod/staging", "webhdfs://nn:9870/c")
    assert with_tokens(urls) == ("hdfs://prod/staging", "webhdfs://nn:9870/c")
