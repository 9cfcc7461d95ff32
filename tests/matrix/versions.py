"""The versions that Weir is tried with, and what one run of the matrix takes of each.

The first of each kind is what a checkout has by itself: it comes as a package, or is the oldest Python.
"""

from itertools import combinations
from typing import NamedTuple

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
DJANGOS = ("5.2", "6.0", "6.1")
POSTGRESQLS = ("18", "17", "16", "15")
REDISES = ("valkey9", "valkey8", "redis8", "redis7", "redis6.2")
# By Django's own page of supported versions.
PYTHONS_OF_DJANGO = {"5.2": PYTHONS, "6.0": PYTHONS[1:], "6.1": PYTHONS[1:]}
# So that each Celery meets all servers. With it go a kombu and a redis-py of its own.
CELERY_OF_PYTHON = {"3.11": "5.5", "3.12": "5.6", "3.13": "5.7", "3.14": "5.7"}
# django-celery-beat 2.9.0 refuses it, and works with it: it is put in the place of this one, past its bound.
INSTALLED_OVER = {"6.1": "6.0"}


class Versions(NamedTuple):
    """One of each kind."""

    python: str
    django: str
    postgresql: str
    redis: str

    @property
    def name(self) -> str:
        """What a run is called: py3.11-dj5.2-pg18-valkey9."""
        return f"py{self.python}-dj{self.django}-pg{self.postgresql}-{self.redis}"

    @property
    def fits(self) -> bool:
        """Tell whether this Django runs on this Python."""
        return self.python in PYTHONS_OF_DJANGO[self.django]

    @property
    def pairs(self) -> frozenset[tuple[tuple[str, str], tuple[str, str]]]:
        """Return each pair of two kinds that this run tries together."""
        return frozenset(combinations(self._asdict().items(), 2))


ALL: dict[str, tuple[str, ...]] = {"python": PYTHONS, "django": DJANGOS, "postgresql": POSTGRESQLS, "redis": REDISES}


def parsed(name: str) -> Versions:
    """Return the versions that a run's name has; ValueError with a sentence for any other text."""
    parts = name.split("-")
    if len(parts) == len(ALL):
        python, django, postgresql, redis = parts
        found = Versions(python.removeprefix("py"), django.removeprefix("dj"), postgresql.removeprefix("pg"), redis)
        if found.name == name and all(value in ALL[kind] for kind, value in found._asdict().items()):
            if found.fits:
                return found
            raise ValueError(f"Django {found.django} does not run on Python {found.python}: choose another of the two.")
    known = "; ".join(f"{kind} {', '.join(values)}" for kind, values in ALL.items())
    raise ValueError(f"{name!r} names no run, as py3.13-dj6.0-pg15-redis7 does: put it together of {known}.")
