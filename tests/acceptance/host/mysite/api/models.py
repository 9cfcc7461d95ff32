from django.db import models


class Token(models.Model):
    secret = models.CharField(max_length=50)
