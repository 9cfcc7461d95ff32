"""The API's URLs, below /api/: its operations, its document, the page about it, and one about each kind of problem."""

from django.urls import URLPattern, URLResolver, path, re_path

from weir.api import pages
from weir.api.v1 import api
from weir.postgres.own_commits import leave_commits_to

urlpatterns: list[URLPattern | URLResolver] = [
    path("problems/<slug:name>", pages.problem),
    path("", api.urls),
    re_path("", pages.nothing),
]
leave_commits_to(urlpatterns)
