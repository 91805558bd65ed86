"""The image of all test containers: `machine_root`, in the engine of this session."""

from __future__ import annotations

import json
from functools import cache

from support.containers.engine import SESSION_LABEL, engine_client
from support.machine_root import machine_root


@cache
def machine_image() -> str:
    """The id of this session's image."""
    with engine_client() as client:
        answer = client.api.import_image_from_data(machine_root(), changes=[f"LABEL {SESSION_LABEL}"])
    return str(json.loads(answer.splitlines()[-1])["status"])
