"""A client of a JVM whose calls Ctrl-C may interrupt.

To clean up after a KeyboardInterrupt amid a call, py4j calls a method of the connection that only those of its other
gateway have: the interrupt became an AttributeError, and the connection stayed open.
"""

from __future__ import annotations

from py4j.java_gateway import GatewayClient, GatewayConnection


class _Connection(GatewayConnection):  # type: ignore[misc]  # py4j ships no types
    """One that can be shut down."""

    def shutdown_socket(self, remote_port: int, local_port: int) -> None:
        """Closes the connection: the answer of its call would be read as that of the next one."""
        self.close(reset=True)


class InterruptibleClient(GatewayClient):  # type: ignore[misc]  # py4j ships no types
    """Each call has a connection of its own while it is under way, of the kind above."""

    def _create_connection(self) -> _Connection:
        connection = _Connection(self.gateway_parameters, self.gateway_property)
        connection.start()
        return connection
