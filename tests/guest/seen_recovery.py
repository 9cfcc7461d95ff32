"""A PostgreSQL that has forgotten: what is done does not depend on the keys that the foreign project's models have."""

from django.conf import settings
from django.test import TransactionTestCase

from weir.postgres.timeline import gate
from weir.ratelimit import site_settings, slots
from weir.workers.recovery import recovering

SITE = "quick.example"


class Recovery(TransactionTestCase):
    """Its DEFAULT_AUTO_FIELD has 32 bits; Weir's ids have 64, and are found by that."""

    def test_no_id_is_given_twice(self) -> None:
        assert settings.DEFAULT_AUTO_FIELD == "django.db.models.AutoField"
        site_settings.set_rate(SITE, "1000/s")
        before = slots.reserve(SITE, max_wait=60).slots[0].id
        seen = gate.look()
        gate.close("a test", seen)
        recovering.recover("a test", seen, "a test")
        assert slots.reserve(SITE, max_wait=60).slots[0].id > before + recovering.AHEAD
