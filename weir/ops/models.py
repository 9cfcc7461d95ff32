"""Permission, which lets a user see the operators' pages."""

from typing import ClassVar

from django.db import models


class Permission(models.Model):
    """A model without a table. It declares the permissions of the operators' pages, which users and groups can have."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions: ClassVar = [("view", "Can see the operators' pages")]
