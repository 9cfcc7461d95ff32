"""The runs of the matrix have each two versions meet, and are few."""

from itertools import product

import pytest

from tests.cases import for_each
from tests.matrix.covering import covering_runs
from tests.matrix.versions import ALL, Versions, parsed

FEW = {"python": ["3.11", "3.13"], "django": ["5.2", "6.0"], "postgresql": ["18", "15"], "redis": ["valkey9", "redis7"]}


def pairs_that_fit(values: dict[str, tuple[str, ...]]) -> set[object]:
    return {pair for found in product(*values.values()) if Versions(*found).fits for pair in Versions(*found).pairs}


def test_each_pair_is_in_a_run() -> None:
    """All that fit, of all versions that there are; no run has a Django that its Python does not run."""
    runs = covering_runs(ALL)

    assert {pair for run in runs for pair in run.pairs} == pairs_that_fit(ALL)
    assert all(run.fits for run in runs)


def test_runs_are_few() -> None:
    """Fewer than the two longest kinds need are not possible; all that could be made are six times as many."""
    lengths = sorted(map(len, ALL.values()))

    assert lengths[-1] * lengths[-2] <= len(covering_runs(ALL)) <= lengths[-1] * lengths[-2] + 2


def test_what_a_machine_lacks_is_in_no_run() -> None:
    """The first run has the default of each kind, and the same values make the same runs."""
    runs = covering_runs(FEW)

    assert runs == covering_runs(FEW)
    assert runs[0] == Versions("3.11", "5.2", "18", "valkey9")
    assert {value for run in runs for value in run} <= {value for values in FEW.values() for value in values}


def test_nothing_is_run_where_a_kind_is_lacking() -> None:
    """There is no run without a PostgreSQL."""
    assert covering_runs(FEW | {"postgresql": []}) == []


def test_a_run_is_found_by_its_name() -> None:
    """Also one that is not among those that were put together."""
    assert parsed("py3.13-dj6.0-pg15-redis6.2") == Versions("3.13", "6.0", "15", "redis6.2")


@for_each(
    ("name", "sentence"),
    [
        ("py3.11-dj6.0-pg15-redis7", "Django 6.0 does not run on Python 3.11: choose another of the two."),
        ("py3.13-dj6.0-pg15", "'py3.13-dj6.0-pg15' names no run, as py3.13-dj6.0-pg15-redis7 does"),
        ("py3.13-dj6.0-pg14-redis7", "postgresql 18, 17, 16, 15"),
        ("3.13-6.0-15-redis7", "'3.13-6.0-15-redis7' names no run"),
    ],
)
def test_another_name_gets_a_sentence(name: str, sentence: str) -> None:
    """It says what a name is made of."""
    with pytest.raises(ValueError, match=sentence):
        parsed(name)
