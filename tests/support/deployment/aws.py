#!/usr/bin/env python3
"""`aws s3 sync [--delete] FROM TO` and `aws s3 rm --recursive URL`, as the AWS command line has them, for prefixes."""

from __future__ import annotations

import sys

from botocore.client import BaseClient
from botocore.session import Session


def main(arguments: list[str]) -> None:
    """The command."""
    client = Session().create_client("s3")
    match arguments:
        case ["s3", "sync", *flags, source, target]:
            _sync(client, _place(source), _place(target), deletes=flags == ["--delete"])
        case ["s3", "rm", "--recursive", url]:
            bucket, prefix = _place(url)
            for name in _names(client, bucket, prefix):
                client.delete_object(Bucket=bucket, Key=prefix + name)
        case _:
            sys.exit(f"aws {' '.join(arguments)}: not known here")


def _sync(client: BaseClient, source: tuple[str, str], target: tuple[str, str], *, deletes: bool) -> None:
    (bucket, prefix), (to_bucket, to_prefix) = source, target
    names = _names(client, bucket, prefix)
    for name in names:
        origin = {"Bucket": bucket, "Key": prefix + name}
        client.copy_object(Bucket=to_bucket, Key=to_prefix + name, CopySource=origin)
    for name in _names(client, to_bucket, to_prefix) - names if deletes else ():
        client.delete_object(Bucket=to_bucket, Key=to_prefix + name)


def _names(client: BaseClient, bucket: str, prefix: str) -> set[str]:
    """Names of the objects below a prefix, without it."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return {each["Key"].removeprefix(prefix) for page in pages for each in page.get("Contents", ())}


def _place(url: str) -> tuple[str, str]:
    """The bucket, and a prefix that ends with a slash."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    return bucket, f"{prefix.strip('/')}/"


if __name__ == "__main__":
    main(sys.argv[1:])
