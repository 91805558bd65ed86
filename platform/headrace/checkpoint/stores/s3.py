"""Objects in an S3 bucket: PutObject with `If-None-Match: *` is the put-if-absent. Wraps botocore for this layer.

Endpoint, region and credentials come from the usual AWS environment (`AWS_ENDPOINT_URL`, `AWS_PROFILE`, ..). botocore
retries a put whose response was lost. If the first try had succeeded, the retry finds the object, and the put returns
False ("it exists"). A caller that must know whether the object is its own reads it (journal records contain their
writer's token).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NoReturn

from headrace.checkpoint.stores.store import Data, ObjectNotFoundError, StoredObject
from headrace.core.errors import ExternalError, UserError
from headrace.core.retry import Backoff, Retries

_CONFLICTS_MAX = 5
"""Most tries of a put that S3 answers with 409: a delete or another put of that key is in progress."""
_CONFLICT_BACKOFF = Backoff(first_s=0.1, max_s=0.8, jitter=1.0)
"""Pauses between these tries. With jitter, because another writer of the same key retries too."""
_DELETE_MAX = 1000
"""Keys of one DeleteObjects request."""
_TIMEOUT_S = 20

_EXISTS = {"PreconditionFailed", "412"}
_CONFLICT = {"ConditionalRequestConflict", "OperationAborted", "409"}
_MISSING = {"NoSuchKey", "404", "NotFound"}
_PAST_END = {"InvalidRange", "416"}
_DENIED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "403"}


class S3Store:
    """`s3://bucket/prefix`. The bucket must exist."""

    def __init__(self, url: str) -> None:
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        if not bucket:
            raise UserError(f"{url} names no bucket", remedy="write s3://<bucket>/<prefix>")
        self._url = url.rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client = _client(*(os.environ.get(name) for name in _ENVIRONMENT))

    @property
    def url(self) -> str:
        """The URL it was opened with."""
        return self._url

    def put_if_absent(self, path: str, data: Data) -> bool:
        """PutObject, only if the key does not exist."""
        retries = Retries(_CONFLICT_BACKOFF, tries_max=_CONFLICTS_MAX, draw=random.random)
        while True:
            try:
                self._put(path, data, IfNoneMatch="*")
            except Exception as error:
                code = _code(error)
                if code in _EXISTS:
                    return False
                if code not in _CONFLICT:
                    self._raise("write", path, error)
                if not retries.pause():
                    text = f"cannot write {self._url}/{path}: other writers of that name are under way"
                    raise ExternalError(text, remedy="try again", retry=True) from error
            else:
                return True

    def write(self, path: str, data: Data) -> None:
        """PutObject."""
        try:
            self._put(path, data)
        except Exception as error:
            self._raise("write", path, error)

    def read(self, path: str) -> bytes:
        """GetObject."""
        try:
            return self._get(path)
        except Exception as error:
            self._raise("read", path, error)

    def read_range(self, path: str, offset: int, *, length: int) -> bytes:
        """GetObject of a byte range."""
        try:
            return self._get(path, Range=f"bytes={offset}-{offset + length - 1}")
        except Exception as error:
            if _code(error) in _PAST_END:
                return b""
            self._raise("read", path, error)

    def list(self, prefix: str) -> list[str]:
        """Keys below the prefix."""
        return sorted(found.path for found in self.objects(prefix))

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        """Keys with size and time."""
        try:
            yield from self._pages(prefix)
        except Exception as error:
            self._raise("list", prefix, error)

    def leftovers(self) -> Iterable[StoredObject]:
        """Returns none: a put is atomic."""
        return ()

    def delete(self, paths: Iterable[str]) -> None:
        """DeleteObjects, 1,000 keys per request (`_DELETE_MAX`)."""
        keys = [self._prefix + path for path in paths]
        for start in range(0, len(keys), _DELETE_MAX):
            part = keys[start : start + _DELETE_MAX]
            try:
                answer = self._client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in part], "Quiet": True}
                )
            except Exception as error:
                self._raise("delete", part[0].removeprefix(self._prefix), error)
            if errors := answer.get("Errors"):
                first = errors[0]
                raise ExternalError(
                    f"cannot delete s3://{self._bucket}/{first['Key']}: {first.get('Message', first.get('Code'))}",
                    remedy="look at the bucket's policy: checkpoints must be deletable",
                    retry=True,
                )

    def _get(self, path: str, **part: str) -> bytes:
        body: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + path, **part)["Body"].read()
        return body

    def _put(self, path: str, data: Data, **condition: str) -> None:
        self._client.put_object(Bucket=self._bucket, Key=self._prefix + path, Body=bytes(data), **condition)

    def _pages(self, prefix: str) -> Iterator[StoredObject]:
        pages = self._client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
            for found in page.get("Contents", ()):
                modified_ms = int(found["LastModified"].timestamp() * 1000)
                yield StoredObject(found["Key"].removeprefix(self._prefix), found["Size"], modified_ms)

    def _raise(self, what: str, path: str, error: Exception) -> NoReturn:
        place = f"{self._url}/{path}".rstrip("/")
        code = _code(error)
        if code in _MISSING:
            raise ObjectNotFoundError(f"{place} is not there") from error
        if not _is_of_botocore(error):
            raise error
        if code == "NoSuchBucket":
            raise ExternalError(f"there is no bucket {self._bucket}", remedy="create it first") from error
        denied = code in _DENIED or type(error).__name__ == "NoCredentialsError"
        remedy = (
            "look at the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE, ..) and the bucket's policy"
            if denied
            else "look at the network, AWS_ENDPOINT_URL and AWS_REGION"
        )
        raise ExternalError(f"cannot {what} {place}: {error}", remedy=remedy, retry=True) from error


_ENVIRONMENT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_DEFAULT_REGION")
"""The environment variables that select a client; botocore reads them itself."""


@lru_cache(maxsize=4)
def _client(*environment: str | None) -> Any:
    """A client for the current environment. Creating one takes a tenth of a second; threads share it."""
    try:
        from botocore.config import Config
        from botocore.session import Session
    except ImportError as error:
        raise UserError("s3:// needs a package that is not installed", remedy="pip install 'headrace[s3]'") from error
    config = Config(
        connect_timeout=_TIMEOUT_S,
        read_timeout=_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": 3},
        # S3-compatible servers may not support the newer checksums; our own checksums verify the content
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        max_pool_connections=32,
    )
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
    return Session().create_client("s3", region_name=region, config=config)


def _code(error: Exception) -> str:
    """S3's error code; empty without an answer."""
    response = getattr(error, "response", None)
    return str(response["Error"].get("Code", "")) if isinstance(response, dict) and "Error" in response else ""


def _is_of_botocore(error: Exception) -> bool:
    # by name: botocore is an optional dependency
    return type(error).__module__.startswith(("botocore", "urllib3"))
