"""The URLs of the demo's page."""

from django.urls import path

from demo.bell import views
from weir.postgres.own_commits import leave_commits_to

app_name = "demo"
urlpatterns = [
    path("", views.show, name="bell"),
    path("rows/", views.rows, name="rows"),
    path("notify/", views.notify, name="notify"),
]
leave_commits_to(urlpatterns)
