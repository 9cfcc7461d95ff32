"""The URL of the directory of keys, at its well-known path: `path("", include("weir.signatures.urls"))`."""

from django.urls import path

from weir.postgres.own_commits import leave_commits_to
from weir.signatures.directory import PATH, directory

urlpatterns = [path(PATH, directory)]
leave_commits_to(urlpatterns)
