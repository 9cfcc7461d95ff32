"""What a run takes instead of a version that cannot be had: a machine lacks it, or its package cannot be installed."""

from tests.matrix.environments import python_of
from tests.matrix.machine import source
from tests.matrix.packages import Lacking
from tests.matrix.versions import ALL, Versions


def nearest(wanted: Versions) -> Versions:
    """Return the run, or the one that differs least and can be had; says of each version why it was not."""
    run = wanted
    for kind in ("python", "postgresql", "redis"):
        run = run._replace(**{kind: _first_to_be_had(kind, getattr(run, kind))})
    djangos = [run._replace(django=one) for one in sorted(ALL["django"], key=lambda value: value != run.django)]
    chosen = next((one for one in djangos if one.fits and _has_environment(one)), run)
    if chosen != wanted:
        print(f"{chosen.name} is run instead of {wanted.name}.", flush=True)
    return chosen


def _first_to_be_had(kind: str, wanted: str) -> str:
    """Return the version, or another: the default comes last, as it is tried by every other run of the tests."""
    default = ALL[kind][0]
    for value in sorted(ALL[kind], key=lambda value: (value != wanted, value == default)):
        try:
            source(kind, value).provide()
        except Lacking as why:
            print(why, flush=True)
        else:
            return value
    return wanted  # which then says what it lacks


def _has_environment(run: Versions) -> bool:
    try:
        python_of(run)
    except Lacking as why:
        print(f"{run.name}: {why}", flush=True)
        return False
    return True
