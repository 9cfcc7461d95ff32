"""The URLs of the bell. Include them where you like: `path("bell/", include("weir.notifications.web.urls"))`."""

from django.urls import path

from weir.notifications.web import views
from weir.postgres.own_commits import leave_commits_to

app_name = "weir_bell"
urlpatterns = [
    path("", views.count, name="count"),
    path("page/", views.page, name="page"),
    path("read/", views.read, name="read"),
    path("read-all/", views.read_all, name="read-all"),
]
leave_commits_to(urlpatterns)
