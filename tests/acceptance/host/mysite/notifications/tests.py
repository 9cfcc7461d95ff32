from django.contrib.auth import get_user_model
from django.test import TestCase

from .models import Notification


class NotificationTest(TestCase):
    def test_a_line_for_a_customer(self):
        ada = get_user_model().objects.create_user("ada")
        Notification.objects.create(user=ada, text="Welcome")
        self.assertEqual(ada.notification_set.get().text, "Welcome")
        self.assertEqual(Notification._meta.label, "notifications.Notification")
