from decimal import Decimal

from django.contrib.auth.models import User
from django.test import TestCase

from weir import Email, notifications_page, unread_count
from weir.workers.orders.models import Order

from . import orders, prices


class ShopTest(TestCase):
    def setUp(self) -> None:
        self.kim = User.objects.create_user("kim", "kim@example.com")

    def test_all_are_told_of_a_lower_price_once(self) -> None:
        prices.note(1, "tea.example.com", Decimal("5.20"))
        self.assertEqual(unread_count(self.kim.pk), 0)
        prices.note(2, "tea.example.com", Decimal("4.20"))
        prices.note(2, "tea.example.com", Decimal("4.20"))
        self.assertEqual(unread_count(self.kim.pk), 1)

    def test_the_page_shows_the_latest_prices_and_what_is_unread(self) -> None:
        prices.note(1, "tea.example.com", Decimal("5.20"))
        prices.note(2, "tea.example.com", Decimal("4.20"))
        self.client.force_login(self.kim)
        page = self.client.get("/shop/").content.decode()
        self.assertIn("<li>4.20 at tea.example.com</li>", page)
        self.assertNotIn("5.20", page)
        self.assertIn("kim: 1 unread", page)

    def test_an_order_is_shipped_once(self) -> None:
        order = Order.objects.create(number="T-1", customer_email="kim@example.com")
        orders.parcel_is_gone("T-1")
        orders.parcel_is_gone("T-1")
        self.assertEqual(order.shipped_email.state, "pending")
        self.assertEqual(Email.objects.count(), 1)
        self.assertEqual(notifications_page(self.kim.pk)[0].title, "Order T-1 is on its way")
        self.assertEqual(unread_count(self.kim.pk), 1)
