"""The kinds of e-mail of the foreign project."""

from weir.workers.mail import kinds
from weir.workers.mail.kinds import Content


@kinds.register("guest.hello")
def hello() -> Content:
    """Say hello."""
    return Content(subject="Hello", text="Hello.")
