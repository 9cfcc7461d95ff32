from decimal import Decimal

from django.contrib.auth.models import User
from django.db import transaction

from weir import notify_many, request_fetches

from .models import Price

SHOPS = ["127.0.0.1:8101", "127.0.0.1:8102", "127.0.0.1:8103"]


def look() -> None:
    """Ask each shop for its price; `price_arrived` is called as each answer has come."""
    request_fetches([f"http://{shop}/tea" for shop in SHOPS], on_done="shop.tasks.price_arrived")


@transaction.atomic
def note(fetch_id: int, shop: str, amount: Decimal) -> None:
    """Note a price, and tell all users where it fell; for one fetch once, however often this is called."""
    before = Price.objects.filter(shop=shop).order_by("fetch_id").last()
    price, is_new = Price.objects.get_or_create(fetch_id=fetch_id, defaults={"shop": shop, "amount": amount})
    if is_new and before and amount < before.amount:
        notify_many(User.objects.values_list("pk", flat=True), "price.fell", f"Tea: {price}", url="/shop/")
