"""Asks the running workers, through the broker, which queues they consume."""

from weir.workers import broker_link

PATIENCE = (1.0, 2.0)  # seconds to wait for answers: a second, longer time for workers that were busy
CONNECTING = 3.0  # seconds to wait for the broker


def unserved_queues(*queues: str) -> list[str]:
    """Return the queues, of those given, that no running worker consumes.

    Raises Kombu's OperationalError if the broker cannot be reached.
    """
    app = broker_link.app()
    silent = list(queues)
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=CONNECTING)
        for timeout in PATIENCE:
            answers = app.control.inspect(timeout=timeout, connection=connection).active_queues() or {}
            served = {queue["name"] for queues in answers.values() for queue in queues}
            silent = [queue for queue in silent if queue not in served]
            if not silent:
                break
    return silent
