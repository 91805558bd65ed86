"""Masks secrets in displayed configs: fields marked `secret()`, and settings with a telling name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from headrace.spec.wording import file_key, is_secret

MASK = "***"
_TELLING = re.compile(
    r"password|passwd|secret|token|credential|jaas|oauthbearer\.config|(private|api)[._-]?key|key[._-]?pem",
    re.IGNORECASE,
)


def masked_config(config: BaseModel, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The file form `shown` of a config, with its secret fields masked."""
    data = dict(shown)
    for name, info in type(config).model_fields.items():
        key = file_key(name, info)
        if key not in data or data[key] is None:
            continue
        value = getattr(config, name)
        if is_secret(info.json_schema_extra):
            data[key] = MASK
        elif isinstance(value, BaseModel) and isinstance(data[key], Mapping):
            data[key] = masked_config(value, data[key])
        else:
            data[key] = _masked_by_name(data[key])
    return data


def _masked_by_name(value: Any) -> Any:
    """Masks by name: client properties are free-form (`sasl.password`), so the model marks no secrets in them."""
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(item, str) and _TELLING.search(str(key)) else _masked_by_name(item)
            for key, item in value.items()
        }
    return value
