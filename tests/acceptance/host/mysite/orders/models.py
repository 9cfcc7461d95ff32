from django.conf import settings
from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    customer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    invoice_url = models.URLField(blank=True)
    invoice = models.BinaryField(null=True)


class Count(models.Model):
    orders = models.IntegerField()
