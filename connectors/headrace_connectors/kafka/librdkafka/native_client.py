"""A librdkafka client opened through ctypes, a producer or a consumer: settings, callbacks, results as KafkaError.

Callbacks run inside this module's own calls, on the caller's thread, never on a thread of the library. Must not know
records.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from headrace.core.errors import ExternalError
from headrace_connectors.kafka.clients.client import LOG, ClientWatch, bad_settings
from headrace_connectors.kafka.librdkafka import functions as librdkafka
from headrace_connectors.kafka.librdkafka.functions import ERROR_CALLBACK, LOG_CALLBACK, Metadata

_CALLBACKS = ("error_cb", "logger")
_LOG_LEVELS = {3: 40, 4: 30, 5: 20, 6: 20, 7: 10}


class NativeClient:
    """One handle. Its owner destroys it, because producers and consumers shut down differently.

    callbacks   more callbacks, keyed by the function that sets them; the owner keeps them alive as long as the handle
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        kind: int,
        settings: Mapping[str, Any],
        watch: ClientWatch,
        *,
        callbacks: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._lib = library
        self._watch = watch
        # kept here: the library holds bare pointers to them
        self._on_error_pointer = ERROR_CALLBACK(self._on_error)
        self._on_log_pointer = LOG_CALLBACK(self._on_log)
        self.handle = self._open(kind, {**settings, "log.queue": True}, callbacks)

    def _open(self, kind: int, settings: Mapping[str, Any], callbacks: Mapping[str, Any]) -> int:
        lib, text = self._lib, ctypes.create_string_buffer(librdkafka.ERROR_TEXT_BYTES)
        conf = lib.rd_kafka_conf_new()
        for name, value in settings.items():
            if name in _CALLBACKS:
                continue
            setting = str(value).lower() if isinstance(value, bool) else str(value)
            if lib.rd_kafka_conf_set(conf, name.encode(), setting.encode(), text, len(text)) != librdkafka.CONF_OK:
                lib.rd_kafka_conf_destroy(conf)
                raise bad_settings(_refusal(text.value))
        lib.rd_kafka_conf_set_error_cb(conf, self._on_error_pointer)
        lib.rd_kafka_conf_set_log_cb(conf, self._on_log_pointer)
        for setter, callback in callbacks.items():
            getattr(lib, setter)(conf, callback)
        handle = lib.rd_kafka_new(kind, conf, text, len(text))
        if not handle:
            lib.rd_kafka_conf_destroy(conf)
            raise bad_settings(_refusal(text.value))
        # log lines wait in a queue for a call of this thread: the library's own threads must not run Python
        lib.rd_kafka_set_log_queue(handle, None)
        return int(handle)

    def _on_error(self, handle: int, code: int, reason: bytes, _opaque: int) -> None:
        text = reason.decode("utf-8", "replace")
        if code == KafkaError._FATAL:
            buffer = ctypes.create_string_buffer(librdkafka.ERROR_TEXT_BYTES)
            code = self._lib.rd_kafka_fatal_error(handle, buffer, len(buffer))
            self._watch.on_error(KafkaError(code, buffer.value.decode("utf-8", "replace"), True))  # noqa: FBT003
        else:
            self._watch.on_error(KafkaError(code, text))

    def _on_log(self, _handle: int, level: int, facility: bytes, text: bytes) -> None:
        shown = facility.decode("utf-8", "replace"), text.decode("utf-8", "replace")
        LOG.log(_LOG_LEVELS.get(level, 50), "%s %s", *shown)

    def outcome(self, error: int | None) -> KafkaError | None:
        """Converts an `rd_kafka_error_t` and releases it; None: the call succeeded."""
        if not error:
            return None
        lib = self._lib
        fatal, retriable = lib.rd_kafka_error_is_fatal(error), lib.rd_kafka_error_is_retriable(error)
        text = lib.rd_kafka_error_string(error).decode("utf-8", "replace")
        found = KafkaError(lib.rd_kafka_error_code(error), text, bool(fatal), bool(retriable))
        lib.rd_kafka_error_destroy(error)
        return found

    def described(self, topic_handle: int, timeout_s: float) -> tuple[KafkaError | None, int]:
        """The brokers' error for a topic, if any, and the current number of partitions.

        Raises KafkaException if no broker answers within `timeout_s`.
        """
        lib, answer = self._lib, ctypes.POINTER(Metadata)()
        code = lib.rd_kafka_metadata(self.handle, 0, topic_handle, ctypes.byref(answer), int(timeout_s * 1000))
        if code:
            raise KafkaException(KafkaError(code))
        try:
            # compared before a pointer is followed: rejects a library with another layout of `rd_kafka_metadata_t`
            one = answer.contents.topic_count == 1
            topic = answer.contents.topics[0]
            if not one or topic.topic != lib.rd_kafka_topic_name(topic_handle):
                raise ExternalError(
                    "librdkafka has another memory layout of rd_kafka_metadata_t than headrace expects",
                    remedy="install a confluent-kafka within the range that headrace requires",
                )
            return (KafkaError(topic.err) if topic.err else None), int(topic.partition_count)
        finally:
            lib.rd_kafka_metadata_destroy(answer)


def _refusal(text: bytes) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, text.decode("utf-8", "replace")))
