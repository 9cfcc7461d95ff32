from celery import current_app
from django.contrib.auth import get_user_model
from django.test import TestCase

from .models import Count, Order
from .tasks import count


class OrdersTest(TestCase):
    def test_orders_are_counted(self):
        ada = get_user_model().objects.create_user("ada")
        Order.objects.create(number="1", customer=ada)
        count()
        self.assertEqual(Count.objects.get().orders, 1)

    def test_tasks_are_those_of_the_sites_own_celery_app(self):
        self.assertEqual(current_app.main, "mysite")
        self.assertIs(count.app, current_app._get_current_object())
        self.assertEqual(current_app.amqp.router.route({}, count.name)["queue"].name, "orders")
