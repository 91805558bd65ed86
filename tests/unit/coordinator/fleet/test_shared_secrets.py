"""Secrets reach every worker: those that are connected, and those that come later."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.fleet.shared_secrets import SharedSecrets
from headrace.rpc.messages import ReplaceSecret
from support.control.server import TOKEN
from support.control.worker import Worker
from support.patience import CONTROL_TIMES
from support.processes.running import wait_until


def secrets_of(worker: Worker) -> list[ReplaceSecret]:
    return [each for each in worker.told if isinstance(each, ReplaceSecret)]


def test_connected_workers_and_later_ones_are_sent_the_newest_secrets() -> None:
    secrets = SharedSecrets()
    first, second = Worker(), Worker()
    second.register = replace(first.register, worker="w2")

    async def lead() -> None:
        fleet = Fleet("c", CONTROL_TIMES, secrets=secrets)
        port = await fleet.start("127.0.0.1", 0, TOKEN)
        try:
            await asyncio.to_thread(follow, f"127.0.0.1:{port}", fleet)
        finally:
            await fleet.stop(workers=False)

    def follow(address: str, fleet: Fleet) -> None:
        clients = [first.connect(address)]
        try:
            wait_until(lambda: fleet.workers_connected == 1, "the worker has joined")
            assert not secrets_of(first), "nothing was replaced"
            # as the thread does that renews them
            replacing = threading.Thread(target=secrets.replace, args=({"tokens": b"old"},))
            replacing.start()
            replacing.join()
            secrets.replace({"tokens": b"new"})
            wait_until(lambda: ReplaceSecret("tokens", b"new") in secrets_of(first), "it is sent the newest")
            clients.append(second.connect(address))
            wait_until(lambda: secrets_of(second) == [ReplaceSecret("tokens", b"new")], "so is the next worker")
        finally:
            for client in clients:
                client.close(0)

    asyncio.run(lead())
    assert secrets.newest() == {"tokens": b"new"}
    secrets.replace({"tls.crt": b"c"})  # nobody listens any more
