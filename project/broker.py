"""Corrections of what Kombu and Celery do with the broker.

In Kombu 5.7, the loss of the broker ends a worker, and `amqps` may compare a certificate with the name of another host.
Celery prefers the broker's URL in the environment to the one in the settings. The URL in the environment does not make
Kombu verify TLS.
"""

from collections.abc import Sequence
from typing import Any

import amqp
from celery.app.utils import Settings
from kombu.transport import TRANSPORT_ALIASES, pyamqp, redis

from project.environment import urls


class QoS(redis.QoS):
    """Kombu's record of unacknowledged messages, for a connection that may be gone.

    Kombu returns unacknowledged messages to the broker when it closes a channel. If the connection is already gone,
    Kombu raises AttributeError, which ends the Celery worker. This class drops the messages instead: the broker
    redelivers them after their visibility time-out, and the sweep finds Weir's own work long before that.
    """

    def restore_unacked(self, *arguments: object) -> None:
        """Return unacknowledged messages to the broker; drop them if the connection is gone."""
        if self.channel.connection.client is not None:
            super().restore_unacked(*arguments)
        elif self._delivered is not None:
            self._delivered.clear()


class VerifiedTLS(pyamqp.SSLTransport):
    """AMQP over TLS: each host's certificate must have that host's own name.

    py-amqp always verifies the signature, but compares the name only if the option `server_hostname` is set. Kombu
    replaces an option that is None by the host's name, in one dict that all connections share. The certificate of a
    second host would then be compared with the first host's name. This class gives each connection a dict of its own,
    and adds no option to a dict that the user has set.
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
    """Make Kombu use the classes above for all connections that are opened from now on. May be called twice."""
    redis.Channel.QoS = QoS
    TRANSPORT_ALIASES["amqps"] = f"{__name__}:{VerifiedTLS.__name__}"


def take_url_from_settings() -> None:
    """Make Celery connect to the broker, or the several brokers, of its settings, and verify TLS."""
    configuration: Any = Settings
    configuration.broker_url = property(lambda of: _verified(of.first("broker_url", "broker_host")))
    configuration.broker_read_url = property(lambda of: _verified(of.get("broker_read_url")) or of.broker_url)
    configuration.broker_write_url = property(lambda of: _verified(of.get("broker_write_url")) or of.broker_url)


def _verified(url: str | Sequence[str] | None) -> str | None:
    return urls.verified(urls.joined(url)) if url else None
