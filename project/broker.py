"""What a worker does with messages that wait in it when the broker goes away: it leaves them, and stays alive.

Kombu (5.7) wants to give them back when it closes the channel, and has let go of the connection before: an
AttributeError, which Celery takes for the end of the worker. The broker gives them back by itself, when their
visibility time-out is over; what Weir sends is found by the sweep long before.
"""

from kombu.transport import redis


class QoS(redis.QoS):
    """Kombu's, for a connection that may be gone."""

    def restore_unacked(self, *arguments: object) -> None:
        """Give the messages back that are not acknowledged, unless the connection is gone."""
        if self.channel.connection.client is not None:
            super().restore_unacked(*arguments)
        elif self._delivered is not None:
            self._delivered.clear()


def outlive_lost_connections() -> None:
    """Have all of Celery's connections to Redis do so. To be called before the first is made; may be called twice."""
    redis.Channel.QoS = QoS
