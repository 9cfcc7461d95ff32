"""Effects in a test: those that a mailer would perform."""

import pytest
from django.test import TestCase

from weir.testing import captured_fetches, performed_effects
from weir.workers.effects import kinds, queueing
from weir.workers.effects.performing.attempts import EffectAttempt

DONE: list[str] = []


@kinds.register("test.listed")
def listed(attempt: EffectAttempt) -> str:
    """Write it down."""
    attempt.begin()
    DONE.append(attempt.key)
    return attempt.key


@pytest.mark.django_db(transaction=True)
def test_an_effect_happens_once_when_the_transaction_commits() -> None:
    DONE.clear()
    with captured_fetches():
        queueing.once("test.listed", "waits")
        assert DONE == []
    with performed_effects() as effects:
        queueing.once("test.listed", "1")
        queueing.once("test.listed", "1")
    assert DONE == [effect.result for effect in effects] == ["waits", "1"]


class InATestCase(TestCase):
    """Nothing is committed here."""

    def test_it_happens_where_callbacks_are_executed(self) -> None:
        """And is rolled back with the test."""
        DONE.clear()
        effects = self.enterContext(performed_effects())
        with self.captureOnCommitCallbacks(execute=True):
            queueing.once("test.listed", "1")
            assert DONE == []
        assert [effect.state for effect in effects] == ["done"]
