"""performed_effects: the effects that a mailer would perform after a commit are performed in the test."""

from collections.abc import Iterator
from contextlib import contextmanager

from weir.testing import messages
from weir.testing.servers import without_servers
from weir.workers.effects.models import Effect
from weir.workers.effects.performing import runner


@contextmanager
def performed_effects() -> Iterator[list[Effect]]:
    """Perform effects that are due when a transaction commits; yields the list of those whose attempts have ended.

    The functions of their kinds are called, and their outcomes recorded, as a mailer would do it, but in this thread
    and on its connection, even in a TestCase, in which `captureOnCommitCallbacks(execute=True)` takes the place of a
    commit. The other side is yours to replace. Implies `without_servers`.
    """
    performed: list[Effect] = []

    def perform_all() -> None:
        ids = [effect_id for effect_id, _outcome in runner.perform_due()]
        performed.extend(Effect.objects.filter(pk__in=ids).order_by("pk"))

    with without_servers(), messages.effects_performed_by(perform_all):
        yield performed
