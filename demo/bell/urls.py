"""The URLs of the demo's page."""

from django.urls import path

from demo.bell import views

app_name = "demo"
urlpatterns = [
    path("", views.show, name="bell"),
    path("rows/", views.rows, name="rows"),
    path("notify/", views.notify, name="notify"),
]
