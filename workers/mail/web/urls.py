"""URLs for providers' webhooks, and for recipients who unsubscribe.

Include them where you like: `path("mail/", include("weir.workers.mail.web.urls"))`. They need no login: each request
must prove by a signature, or a password, that it may say what it says.
"""

from django.urls import path

from weir.postgres.own_commits import leave_commits_to
from weir.workers.mail.web import unsubscribing, webhooks

app_name = "weir_mail"
urlpatterns = [
    path("webhooks/<slug:name>/", webhooks.receive, name="webhook"),
    path("unsubscribe/<str:token>/", unsubscribing.unsubscribe, name="unsubscribe"),
]
leave_commits_to(urlpatterns)
