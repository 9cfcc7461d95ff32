from weir.workers.mail import kinds
from weir.workers.mail.kinds import Content


@kinds.register("bookshop.ordered")
def ordered(*, book: str) -> Content:
    """Confirm an order."""
    return Content.from_templates("bookshop/ordered", book=book)
