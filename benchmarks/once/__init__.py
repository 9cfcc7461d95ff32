"""E-mails that are sent once: how many are sent and claimed a second, and what a hanging mail server costs others.

All sides send the same e-mails: subject, text and HTML of the same templates.
"""

from pathlib import Path

from benchmarks.figures import Figure


def measure(folder: Path) -> list[Figure]:
    """Return the figures of all three."""
    # Not at the top: processes of this benchmark import this package before Django is set up, or without Django.
    from benchmarks.once import claims, mails, queues, updates  # noqa: PLC0415

    figures = [*mails.compare(), *claims.measure(), *updates.compare(folder)]
    queues.empty()
    return figures
