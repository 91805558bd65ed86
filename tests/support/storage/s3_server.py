"""An S3-compatible server (moto) in a process of its own, with one bucket."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from support.patience import WAIT_SECONDS

BUCKET = "checkpoints"
_SERVER = """
import sys, threading, time
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer
# moto looks whether an object is there and then puts it: of two threads of it that do so at once, both may
put, one_at_a_time = S3Response.put_object, threading.Lock()
contested = {}
def put_object(self):
    with one_at_a_time:
        # another put of that name is under way for a while
        if "contested" in self.path and time.monotonic() < contested.setdefault(self.path, time.monotonic() + 0.5):
            return 409, {}, "<Error><Code>ConditionalRequestConflict</Code></Error>"
        return put(self)
S3Response.put_object = put_object
server = ThreadedMotoServer(ip_address=sys.argv[1], port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""

_BUCKET = """
from botocore.session import Session
Session().create_client("s3", region_name="us-east-1").create_bucket(Bucket="checkpoints")
"""


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server that listens. process: to be suspended, with which it answers nobody."""

    endpoint: str
    process: subprocess.Popen[str]

    def environment(self) -> Mapping[str, str]:
        """By which clients find it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@contextmanager
def s3_server(host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> Iterator[S3Server]:
    """Starts one; it is killed at the end. prefix: puts its process on that host."""
    process = subprocess.Popen(
        [*prefix, sys.executable, "-c", _SERVER, host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        server = S3Server(f"http://{host}:{process.stdout.readline().strip()}", process)
        environment = {**os.environ, **server.environment()}
        subprocess.run([sys.executable, "-c", _BUCKET], check=True, timeout=WAIT_SECONDS, env=environment)
        yield server
    finally:
        process.kill()
        process.communicate()
