"""Once e-mails: how many are sent and claimed a second, and what it costs others when the mail server hangs.

All sides send the same: subject, text and HTML of the same templates.
"""

from pathlib import Path

from benchmarks.figures import Figure


def measure(folder: Path) -> list[Figure]:
    """Return the figures of all three."""
    # Processes that this benchmark starts import this package before Django is there, or without it.
    from benchmarks.once import claims, mails, queues, updates  # noqa: PLC0415

    figures = [*mails.compare(), *claims.measure(), *updates.compare(folder)]
    queues.empty()
    return figures
