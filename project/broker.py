"""What Kombu 5.7 does to connections with a broker, put right where Weir relies on it."""

from typing import Any

import amqp
from kombu.transport import TRANSPORT_ALIASES, pyamqp, redis


class QoS(redis.QoS):
    """Kombu's record of unacknowledged messages, for a connection that may be gone.

    Kombu returns them to the broker when it closes a channel. If the connection is gone then, this raises
    AttributeError, which ends the Celery worker. Here they are dropped instead: the broker redelivers them after their
    visibility time-out, and the sweep finds what Weir sent long before that.
    """

    def restore_unacked(self, *arguments: object) -> None:
        """Return unacknowledged messages to the broker; drop them if the connection is gone."""
        if self.channel.connection.client is not None:
            super().restore_unacked(*arguments)
        elif self._delivered is not None:
            self._delivered.clear()


class VerifiedTLS(pyamqp.SSLTransport):
    """AMQP by TLS, where the certificate must be for the host that is connected to.

    py-amqp verifies who has signed it in any case, but the name only where one is stated: None is that of the URL.
    Kombu writes that name into the setting, which all connections share, and so compares the next of several hosts with
    the first one's name. Here each connection has a copy.
    """

    def establish_connection(self) -> amqp.Connection:
        """Connect, and verify the certificate. Raises OSError."""
        url: Any = self.client
        given = url.ssl
        url.ssl = {"server_hostname": None, **(given if isinstance(given, dict) else {})}
        try:
            return super().establish_connection()
        finally:
            url.ssl = given


def mend() -> None:
    """Have all connections that are made from now on be these. May be called twice."""
    redis.Channel.QoS = QoS
    TRANSPORT_ALIASES["amqps"] = f"{__name__}:{VerifiedTLS.__name__}"
