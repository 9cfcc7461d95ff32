from django.conf import settings
from django.db import models


class Notification(models.Model):
    """A line that the shop shows on a page of a customer."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    text = models.TextField()
