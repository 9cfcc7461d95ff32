from django.core import mail
from django.core.mail import send_mail
from django.test import TestCase

from .models import Email


class EmailTest(TestCase):
    def test_an_email_is_answered(self):
        letter = Email.objects.create(sender="ada@example.com", text="Where is my order?")
        send_mail("Your question", "On its way.", None, [letter.sender])
        self.assertEqual([sent.to for sent in mail.outbox], [["ada@example.com"]])
        self.assertEqual(Email._meta.db_table, "mail_email")
