"""The bodies of answers and of requests. They are not in Fetch, so that the rows of the queue stay small."""

from django.db import models


class FetchBody(models.Model):
    """The body of a done fetch, decompressed."""

    fetch = models.OneToOneField("Fetch", models.CASCADE, primary_key=True, related_name="body")
    content = models.BinaryField()

    def __str__(self) -> str:
        return f"body of fetch {self.pk}"


class RequestBody(models.Model):
    """The body of a fetch's request, as it is sent. It is deleted with its fetch, which may be retried until then."""

    # The constraint is the migration's: it deletes the body with the fetch, also for a version that knows no bodies.
    fetch = models.OneToOneField("Fetch", models.CASCADE, primary_key=True, db_constraint=False, related_name="+")
    content = models.BinaryField()

    def __str__(self) -> str:
        return f"body of the request of fetch {self.pk}"
