from django.contrib.auth import get_user_model
from django.core import mail
from django.test import TestCase

from weir import Fetch, unread_count
from weir.testing import captured_fetches, sent_emails

from .models import Order
from .views import CardRefused

INVOICE = "https://invoices.example.com/1"
SENT = {"customer": "ada", "number": "1", "invoice_url": INVOICE, "card": "good"}


class PlacingTest(TestCase):
    """With weir.testing."""

    def setUp(self):
        self.ada = get_user_model().objects.create_user("ada", "ada@example.com")
        self.fetches = self.enterContext(captured_fetches())
        self.enterContext(sent_emails())

    def test_an_order_asks_for_its_invoice_and_tells_its_customer(self):
        with self.captureOnCommitCallbacks(execute=True):
            answer = self.client.post("/orders/", SENT)
        self.assertEqual(answer.json(), {"unread": 1})
        self.assertEqual(self.fetches.urls, [INVOICE])
        self.assertEqual(unread_count(self.ada.pk), 1)
        self.assertEqual([sent.subject for sent in mail.outbox], ["Your order 1"])
        self.fetches.answer(INVOICE, 200, b"4.20")
        self.assertEqual(bytes(Order.objects.get().invoice), b"4.20")

    def test_a_card_that_is_refused_leaves_nothing(self):
        with self.captureOnCommitCallbacks(execute=True), self.assertRaises(CardRefused):
            self.client.post("/orders/", {**SENT, "card": "refused"})
        self.assertEqual(self.fetches.urls, [])
        self.assertEqual(unread_count(self.ada.pk), 0)
        self.assertEqual(mail.outbox, [])


class WithoutItTest(TestCase):
    """As a test that knows nothing of weir.testing."""

    def test_an_order_is_placed(self):
        get_user_model().objects.create_user("ada", "ada@example.com")
        self.assertEqual(self.client.post("/orders/", SENT).json(), {"unread": 1})
        self.assertEqual(Fetch.objects.get().url, INVOICE)
