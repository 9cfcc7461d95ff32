"""A database that was emptied is known as such, also where Django's tests emit no `post_migrate` afterwards."""

import pytest
from django.core.management import call_command
from django.core.management.commands import flush

from weir.postgres.timeline.models import KnownTimeline
from weir.ratelimit.throttle import throttle


@pytest.mark.django_db(transaction=True)
def test_what_was_emptied_grants_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django emits none after a test with `serialized_rollback`, and the next one would be granted nothing."""

    def empty_alone(_command: flush.Command, **_options: object) -> None:
        KnownTimeline.objects.all().delete()

    monkeypatch.setattr(flush.Command, "handle", empty_alone)
    call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
    with throttle("a.example", max_wait=5):
        pass
