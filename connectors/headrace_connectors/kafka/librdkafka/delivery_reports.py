"""Counts failed records of one producer: in a kernel, or in Python where kernels are off."""

from __future__ import annotations

from ctypes import addressof, c_int32
from typing import Any

from confluent_kafka import KafkaError

from headrace.kernels.kafka.produce import Deliveries, delivery_counter
from headrace_connectors.kafka.librdkafka.functions import DELIVERY_CALLBACK


class DeliveryReports:
    """The failures so far. The producer keeps this object until its client is destroyed: the client holds its
    address."""

    def __init__(self) -> None:
        self._deliveries = Deliveries()
        counter = delivery_counter()
        self._callback = DELIVERY_CALLBACK(self._on_report) if counter is None else DELIVERY_CALLBACK(counter)

    @property
    def callbacks(self) -> dict[str, Any]:
        """The settings with which a client reports here, keyed by the function that sets them."""
        return {
            "rd_kafka_conf_set_dr_msg_cb": self._callback,
            "rd_kafka_conf_set_opaque": addressof(self._deliveries),
        }

    def _on_report(self, _handle: int, message: int, _opaque: int) -> None:
        # `err` is the first field of the struct
        code = c_int32.from_address(message).value
        if code:
            if not self._deliveries.failed:
                self._deliveries.first_error = code
            self._deliveries.failed += 1

    def first_error(self) -> KafkaError | None:
        """The error of the first record that failed; later ones are its consequences."""
        return KafkaError(self._deliveries.first_error) if self._deliveries.failed else None
