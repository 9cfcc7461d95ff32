"""A worker survives a lost broker with messages in its memory.

Kombu 5.7 returns unacknowledged messages to the broker when it closes a channel. If the connection is gone then, this
raises AttributeError, which ends the Celery worker. Here the messages are dropped instead: the broker redelivers them
after their visibility time-out, and the sweep finds what Weir sent long before that.
"""

from kombu.transport import redis


class QoS(redis.QoS):
    """Kombu's record of unacknowledged messages, for a connection that may be gone."""

    def restore_unacked(self, *arguments: object) -> None:
        """Return unacknowledged messages to the broker; drop them if the connection is gone."""
        if self.channel.connection.client is not None:
            super().restore_unacked(*arguments)
        elif self._delivered is not None:
            self._delivered.clear()


def outlive_lost_connections() -> None:
    """Make all channels to Redis that are opened from now on use this QoS. May be called twice."""
    redis.Channel.QoS = QoS
