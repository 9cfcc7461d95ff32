"""What Kombu and Celery do with the broker, corrected.

In Kombu 5.7, a lost broker ends a worker, and `amqps` compares a wrong name. Celery prefers the broker's URL in the
environment, in which nothing demands that TLS is verified, to the one in the settings.
"""

from collections.abc import Sequence
from typing import Any

import amqp
from celery.app.utils import Settings
from kombu.transport import TRANSPORT_ALIASES, pyamqp, redis

from project.environment import urls


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
    """AMQP over TLS: each host's certificate must have that host's own name.

    py-amqp always verifies the signature. It compares the name only if `server_hostname` is set. Kombu sets it if it is
    None, and does so in one dict that all connections share: the second host's certificate would be compared with
    the first host's name. Here each connection has a dict of its own. What a user's own dict leaves out stays out.
    """

    def establish_connection(self) -> amqp.Connection:
        """Connect, and verify the certificate. Raises OSError."""
        connection: Any = self.client
        given = connection.ssl
        connection.ssl = dict(given) if isinstance(given, dict) else {"server_hostname": None}
        try:
            return super().establish_connection()
        finally:
            connection.ssl = given


def patch_kombu() -> None:
    """Make Kombu use these classes for all connections that are opened from now on. May be called twice."""
    redis.Channel.QoS = QoS
    TRANSPORT_ALIASES["amqps"] = f"{__name__}:{VerifiedTLS.__name__}"


def take_url_from_settings() -> None:
    """Make Celery connect to the brokers that its settings name, several of them included, with TLS verified."""
    configuration: Any = Settings
    configuration.broker_url = property(lambda of: _verified(of.first("broker_url", "broker_host")))
    configuration.broker_read_url = property(lambda of: _verified(of.get("broker_read_url")) or of.broker_url)
    configuration.broker_write_url = property(lambda of: _verified(of.get("broker_write_url")) or of.broker_url)


def _verified(url: str | Sequence[str] | None) -> str | None:
    return urls.verified(urls.joined(url)) if url else None
