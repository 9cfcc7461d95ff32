"""without_servers: Weir asks no broker and no Redis, and does not wait for slots. PostgreSQL is that of the tests."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Final

from django.apps import apps

from weir.testing import messages

# The replacements for the servers that each app asks. They are imported only if the app is installed, because the
# models of another app cannot be imported.
_STAND_INS: Final = {
    "weir.ratelimit": ("weir.testing.throttling", "throttled_hosts"),
    "weir.notifications": ("weir.testing.numbers", "without_redis"),
}


@contextmanager
def without_servers() -> Iterator[None]:
    """Keep this process from asking a broker or Redis while the block lasts, and from waiting for slots.

    A message to Weir's own workers is dropped. A task that `on_done` names is run immediately, and its exceptions reach
    the test. Unread numbers are counted from the rows. `throttle` does not wait (`throttled_hosts`).
    """
    with ExitStack() as stack:
        stack.enter_context(messages.taken())
        for app, (module, name) in _STAND_INS.items():
            if apps.is_installed(app):
                stack.enter_context(getattr(import_module(module), name)())
        yield
