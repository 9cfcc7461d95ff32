"""Phase: how far an attempt to send an e-mail came."""

from django.db import models


class Phase(models.TextChoices):
    """How far the last attempt came that did not end `sent`."""

    NOT_BEGUN = "not begun"  # before the content was transmitted: certainly not accepted
    BEFORE_DOT = "before dot"  # the content was being transmitted: certainly not accepted
    AFTER_DOT = "after dot"  # everything was transmitted and no reply came: accepted or not
    BEGUN = "begun"  # transmission began and its end is not known: the worker died, or its transport cannot tell
