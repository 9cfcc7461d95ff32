"""E-mails that are sent once: how many are queued, claimed and sent a second, and what a hanging mail server costs.

All sides send the same e-mails: subject, text and HTML of the same templates.
"""

from pathlib import Path

from benchmarks.figures import Figure


def measure(folder: Path) -> list[Figure]:
    """Return the figures of all comparisons."""
    # Not at the top: processes of this benchmark import this package before Django is set up, or without Django.
    from benchmarks.once import claims, mails, provider, queueing, queues, updates  # noqa: PLC0415

    figures = [
        *mails.compare(folder),
        *queueing.compare(),
        *provider.measure(),
        *claims.measure(),
        *updates.compare(folder),
    ]
    queues.empty()
    return figures
