from django.db import models


class Price(models.Model):
    """What a shop asked for its tea, by one fetch."""

    fetch_id = models.BigIntegerField(unique=True)
    shop = models.CharField(max_length=100)
    amount = models.DecimalField(max_digits=8, decimal_places=2)

    def __str__(self) -> str:
        return f"{self.amount} at {self.shop}"
