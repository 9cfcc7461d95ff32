from django.db import models


class Email(models.Model):
    """What a customer wrote to the shop."""

    sender = models.EmailField()
    text = models.TextField()
