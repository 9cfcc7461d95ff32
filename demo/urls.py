"""The URLs of the demo's page."""

from django.urls import path

from demo import pages

app_name = "demo"
urlpatterns = [
    path("", pages.show, name="bell"),
    path("rows/", pages.rows, name="rows"),
    path("notify/", pages.notify, name="notify"),
]
