"""Whatever happens to a fetch: the right party is blamed, and the fetch becomes what the table says (situations.py)."""

import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from project.checkout import CHECKOUT
from tests.conftest import empty_written_tables
from tests.integration.fetcher import situation_runs, situation_sites
from tests.integration.fetcher.situation_runs import ALONE, Runs, Seen
from tests.integration.fetcher.situations import TABLE, Becomes, Situation, Slot
from tests.waiting import TooLateError
from weir.workers.fetches.models import FetchState

pytestmark = pytest.mark.django_db(transaction=True)

SITUATIONS = [situation for rows in TABLE.values() for situation in rows]
STATES = {
    Becomes.DONE: FetchState.DONE,
    Becomes.FAILED: FetchState.FAILED,
    Becomes.AGAIN: FetchState.QUEUED,
    Becomes.BACK: FetchState.QUEUED,
    Becomes.WAITS: FetchState.QUEUED,
    Becomes.ON: FetchState.QUEUED,
    Becomes.CANCELLED: FetchState.CANCELLED,
}
SLOTS = {  # used, given back, passed on
    Slot.USED: (True, False, False),
    Slot.FREE: (False, True, False),
    Slot.PASSED_ON: (True, False, True),
    Slot.EMPTY: (False, False, True),
    Slot.NONE: (False, False, False),
}
RAN_OUT = "fetcher_has_run_out"

See = Callable[[str], Seen]
MOST_TRIES = 2  # to make situations: in the first, the machine may have stood still; then its test is run once more


@pytest.fixture(scope="module")
def seen(
    django_db_setup: None,  # noqa: ARG001  asked for its effect
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[See]:
    """Return a function that makes a situation, with those that are made together with it, and returns what it saw."""
    known: dict[str, Seen] = {}
    tries: Counter[object] = Counter()
    late: dict[object, TooLateError] = {}
    with (
        django_db_blocker.unblock(),
        override_settings(**situation_runs.SETTINGS),
        pytest.MonkeyPatch.context() as patch,
        situation_sites.running(tmp_path_factory.mktemp("situations")) as sites,
    ):
        runs = Runs(sites, patch)

        def see(what: str) -> Seen:
            make = ALONE[what]
            if what not in known and tries[make] < MOST_TRIES:
                tries[make] += 1
                empty_written_tables()
                try:
                    known.update(make(runs))
                except TooLateError as error:
                    late[make] = error
                    raise
            if what not in known and make in late:  # all that are made together were too late
                raise late[make]
            return known[what]

        yield see
        empty_written_tables()


@pytest.mark.parametrize(
    "situation", [pytest.param(situation, id=situation.what) for situation in SITUATIONS if situation.what in ALONE]
)
def test_what_becomes_of_the_fetch(situation: Situation, seen: See) -> None:
    """Its state, its attempts, its slot, what is reported, and whether its site is left alone."""
    after = seen(situation.what)
    assert (after.state, after.attempts) == (STATES[situation.becomes], situation.counts), after.error
    assert after.had_slot == (situation.slot is not Slot.NONE)
    assert (after.slot_used, after.slot_released, after.slot_passed_on) == SLOTS[situation.slot]
    assert re.fullmatch(re.escape(situation.error).replace("…", ".*"), after.error, re.DOTALL), after.error
    assert after.site_rests == situation.site_rests
    assert not situation.log or situation.log in after.events
    assert after.events.count(RAN_OUT) <= 1, "it is said once a minute"


def test_every_situation_is_made_once() -> None:
    """Here, or by another test that exists; and no further situation is made."""
    names = [situation.what for situation in SITUATIONS]
    assert len(names) == len(set(names)) > 40
    assert set(ALONE) <= set(names)
    for situation in SITUATIONS:
        file, _, test = situation.proof.partition("::")
        assert not test or f"def {test}(" in (CHECKOUT / file).read_text()
        assert (situation.what in ALONE) + bool(test) == 1, situation.what
