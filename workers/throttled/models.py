"""PostponedTask, a throttled task that could not start immediately."""

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class PostponedTaskQuerySet(models.QuerySet["PostponedTask"]):
    """Names the states of postponed tasks."""

    def waiting(self) -> Self:
        """Return the tasks that have neither a message on its way to a worker nor a worker that holds them."""
        return self.filter(published_at=None)


class PostponedTask(models.Model):
    """A throttled task that could not start immediately. The row is deleted when the task starts.

    Deleting the row before cancels the task. The task waits (no `published_at`), is published (its message is on its
    way to a worker), or is held (`held_by`: a worker waits for the task's slot). If the message or the worker is lost,
    the task waits again after `lease_until`.
    """

    site = models.CharField(max_length=300, help_text="the name of the site at which it waits")
    host = models.CharField(
        max_length=300,
        blank=True,
        default="",
        db_default="",
        help_text="the name that the task gave, by which its site is looked up again; empty: that of the site",
    )
    task = models.CharField(max_length=300, help_text="the Celery task's name")
    signature = models.TextField(help_text="the message: a Celery signature, as JSON")
    max_wait = models.FloatField(help_text="the longest wait in a worker, in seconds")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, help_text="Celery's `expires`: no worker starts it afterwards")
    not_before = models.DateTimeField(db_default=Now(), help_text="its place in the queue of the site")
    publications = models.PositiveSmallIntegerField(default=0, help_text="messages since a worker last held it")
    published_at = models.DateTimeField(null=True)
    held_by = models.UUIDField(null=True, help_text="the fence: a worker starts the task only with this token")
    lease_until = models.DateTimeField(null=True, help_text="when its message or its worker counts as lost")

    objects: ClassVar = PostponedTaskQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(published_at__isnull=True) ^ Q(lease_until__isnull=False),
                name="weir_postponedtask_published_has_lease",
            ),
            models.CheckConstraint(
                condition=Q(held_by__isnull=True) | Q(published_at__isnull=False),
                name="weir_postponedtask_held_is_published",
            ),
        ]
        indexes: ClassVar = [
            # Publishing finds the sites at which tasks wait, and their next tasks.
            models.Index(
                fields=["site", "not_before", "id"],
                condition=Q(published_at__isnull=True),
                name="weir_postponedtask_waiting",
            ),
            # Publishing counts the tasks of a site that are on their way to a worker.
            models.Index(
                fields=["site"],
                condition=Q(published_at__isnull=False, held_by__isnull=True),
                name="weir_postponedtask_on_its_way",
            ),
            # Taking back finds the tasks whose lease is over.
            models.Index(
                fields=["lease_until"], condition=Q(lease_until__isnull=False), name="weir_postponedtask_leased"
            ),
        ]

    def __str__(self) -> str:
        return f"postponed {self.task} {self.pk} of site {self.site}"
