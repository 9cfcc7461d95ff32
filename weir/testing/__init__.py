"""Helpers for the tests of a project that uses Weir.

In a test that uses them, nothing is sent; Weir asks no site, broker or Redis, and does not wait for slots. In Django's
`TestCase` and `TransactionTestCase`, the helpers are context managers:

    class OrderTest(TestCase):
        def setUp(self) -> None:
            self.fetches = self.enterContext(captured_fetches())
            self.emails = self.enterContext(sent_emails())

With pytest, the helpers are fixtures (`weir.testing.plugin`). docs/how-to/test-your-app.md says how to use them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from weir.testing.effects import performed_effects
    from weir.testing.emails import sent_emails
    from weir.testing.fetches import CapturedFetches, captured_fetches
    from weir.testing.runner import Runner
    from weir.testing.servers import without_servers
    from weir.testing.throttling import throttled_hosts

__all__ = [
    "CapturedFetches",
    "Runner",
    "captured_fetches",
    "performed_effects",
    "sent_emails",
    "throttled_hosts",
    "without_servers",
]

# These modules are imported when one of their names is first used: pytest loads the plugin before Django is set up, and
# also in projects that do not use Weir.
_MODULES: Final = {
    "CapturedFetches": "fetches",
    "Runner": "runner",
    "captured_fetches": "fetches",
    "performed_effects": "effects",
    "sent_emails": "emails",
    "throttled_hosts": "throttling",
    "without_servers": "servers",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  the object that the module has under this name
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
