"""`on_done` in a host: a name that its own process knows to be misspelt is refused, and no other call is lost."""

from tests.integration.conftest import Eventually
from tests.integration.integrate.conftest import TASKS, Host

ASK = """
from shop.celery import app
from django.db import ProgrammingError
from weir import request_fetch
load, loads = app.loader.import_default_modules, []
app.loader.import_default_modules = lambda: loads.append(load())
for name in {names!r}:
    try:
        request_fetch("no URL", on_done=name)
    except ProgrammingError:
        print("accepted:", name)  # there are no tables
    except ValueError as error:
        print(error)
print(len(loads))
"""
MISSPELT = {
    "shop.tasks.tidy_upp": " Did you mean shop.tasks.tidy_up?",
    "shop.tsks.tidy_up": " Did you mean shop.tasks.tidy_up?",
    "shop.bye": "",
}
# One that is there; one of another service's; and one in a module that a worker may be told to load.
ACCEPTED = ["shop.tasks.tidy_up", "shopping.tasks.tidy_upp", "shop.jobs.run"]


def test_a_misspelt_name_is_refused_where_web_code_asks(host: Host) -> None:
    """In a process that has loaded no task yet: it does so once. If it cannot, it cannot judge either."""
    host.write("weir.APPS_FETCHES")
    (host.folder / "shop" / "jobs.py").write_text("")
    *told, loads = host.python(ASK.format(names=[*MISSPELT, *ACCEPTED])).splitlines()
    assert told == [
        *(
            f"on_done names a task {name!r}, which the app shop does not have.{closest} Celery finds tasks in an app's "
            "tasks.py, and in the modules of CELERY_IMPORTS."
            for name, closest in MISSPELT.items()
        ),
        *(f"accepted: {name}" for name in ACCEPTED),
    ]
    assert loads == "1"
    (host.folder / "shop" / "tasks.py").write_text("def broken(:")
    assert host.python(ASK.format(names=[*MISSPELT])).splitlines()[:-1] == [f"accepted: {name}" for name in MISSPELT]


NAME = "billing.tasks.page_arrived"  # of no app of the host's
END = f"""
import weir
print(weir.request_fetch("no URL", on_done={NAME!r}).pk)
"""
KEPT = "from weir import Fetch; print(Fetch.objects.filter(on_done_again_at__isnull=False).count())"
DUE = """
from django.db.models.functions import Now
from weir import Fetch
from weir.workers.fetches.maintenance.sweep import sweep
Fetch.objects.update(on_done_again_at=Now(), finished_at="2026-01-01T00:00Z")
sweep()
"""
DEFINED = f"""
@shared_task(name={NAME!r})
def page_arrived(fetch_id):
    from django.contrib.auth.models import User
    User.objects.create(username=f"fetch {{fetch_id}}")
"""
CALLED = "from django.contrib.auth.models import User; print(*User.objects.values_list('username', flat=True))"
WORKER = "celery -A shop worker --queues celery --pool threads --concurrency 1 --hostname {}@%h"


def test_a_call_that_a_worker_does_not_know_is_made_when_one_does(host: Host, eventually: Eventually) -> None:
    """Celery's own worker rejects the message, after the fetch has kept the call."""
    host.write("weir.APPS_FETCHES")
    host.manage("migrate")
    fetch = host.python(END)
    log = host.start(WORKER.format("old"))
    eventually(lambda: host.python(KEPT) == "1", "the worker to keep the call", seconds=60)
    eventually(lambda: "Received unregistered task" in log.read_text(), "Celery to reject the message")
    host.close()
    log.unlink()  # Celery names a page of its documentation
    (host.folder / "shop" / "tasks.py").write_text(TASKS + DEFINED)
    host.start(WORKER.format("new"))
    host.python(DUE)
    eventually(lambda: host.python(CALLED) == f"fetch {fetch}", "the call", seconds=60)
    assert host.python(KEPT) == "0"
