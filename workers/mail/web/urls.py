"""URLs for recipients who unsubscribe.

Include them where you like: `path("mail/", include("weir.workers.mail.web.urls"))`. They need no login: each request
must prove by a signature that it may say what it says.
"""

from django.urls import path

from weir.postgres.own_commits import leave_commits_to
from weir.workers.mail.web import unsubscribing

app_name = "weir_mail"
urlpatterns = [
    path("unsubscribe/<str:token>/", unsubscribing.unsubscribe, name="unsubscribe"),
]
leave_commits_to(urlpatterns)
