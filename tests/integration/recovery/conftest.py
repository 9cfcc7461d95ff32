"""A history of PostgreSQL that tests may have gone wrong, and that is right again afterwards."""

from collections.abc import Iterator

import pytest

from weir.postgres.timeline import gate
from weir.postgres.timeline.models import KnownTimeline
from weir.workers.recovery import witness


@pytest.fixture(autouse=True)
def _known_again(transactional_db: None) -> Iterator[None]:  # noqa: ARG001  must come first
    [right] = KnownTimeline.objects.values()
    gate.forget()
    yield
    gate.forget()
    highest = max(KnownTimeline.objects.get().generation, witness.exchange(witness.UNKNOWN))
    KnownTimeline.objects.update(**{**right, "generation": highest})
