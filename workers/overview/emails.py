"""The kind of e-mail that tells an operator what needs somebody."""

from weir.conf import settings
from weir.workers.mail import kinds
from weir.workers.mail.kinds import Content
from weir.workers.overview.telling import KIND


def needs_somebody(*, problems: list[dict[str, str]]) -> Content:
    """Say what began to need somebody, with the templates `weir/overview/needs_somebody*`."""
    return Content.from_templates("weir/overview/needs_somebody", problems=problems)


if settings.WEIR_OPERATORS:  # a kind that is never sent would stand in each list of kinds
    kinds.register(KIND)(needs_somebody)
