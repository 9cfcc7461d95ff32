from django.contrib.auth import get_user_model
from django.test import TestCase

from orders.models import Order

from .models import Token


class ApiTest(TestCase):
    def test_an_order(self):
        Order.objects.create(number="1", customer=get_user_model().objects.create_user("ada"))
        self.assertEqual(self.client.get("/api/orders/1/").json(), {"number": "1", "invoice": ""})

    def test_errors_are_the_sites_own(self):
        answer = self.client.get("/api/orders/2/")
        self.assertEqual(answer.status_code, 404)
        self.assertEqual(answer.json(), {"error": "no such order"})
        self.assertEqual(answer["Content-Type"], "application/json")
        self.assertEqual(answer["Access-Control-Allow-Origin"], "*")
        self.assertNotIn("Cache-Control", answer)

    def test_tokens_have_small_keys(self):
        self.assertEqual(Token._meta.pk.get_internal_type(), "AutoField")
