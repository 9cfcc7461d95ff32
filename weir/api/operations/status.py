"""The operation that returns what the overview page shows."""

from django.http import HttpRequest
from ninja import Router

from weir.api.operations.looking import value_of
from weir.api.operations.operation import operation
from weir.api.schemas import status as schemas
from weir.api.tokens import scopes
from weir.ops.snapshots import OverviewSnapshot
from weir.workers.overview.overview import Overview, overview
from weir.workers.overview.problems import problems

router = Router(tags=["status"])
_snapshot: OverviewSnapshot[Overview] = OverviewSnapshot()


@operation(router, "GET", "/status", scope=scopes.SEE_STATUS, answers={200: schemas.Status})
def get_status(request: HttpRequest) -> schemas.Status:
    """Return how everything does, and what needs somebody. It is up to some seconds old: `now` says of when."""
    found = value_of(_snapshot.get(overview))
    numbers = found.numbers._asdict()
    return schemas.Status(
        now=found.numbers.now,
        numbers=schemas.Numbers(**{name: numbers[name] for name in schemas.Numbers.model_fields}),
        messages=dict(found.messages),
        broker_error=found.broker_error,
        redis_error=found.redis_error,
        processes=[
            schemas.Process(**{name: getattr(process, name) for name in schemas.Process.model_fields})
            for process in found.processes
        ],
        problems=[schemas.NeedsAPerson(text=one.text, next_step=one.next_step) for one in problems(found)],
    )
