"""Who may see the operators' pages."""

from typing import ClassVar

from django.db import models


class Permission(models.Model):
    """No table: it carries the permissions of the operators' pages, which Django gives to users and groups."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions: ClassVar = [("view", "Can see the operators' pages")]
