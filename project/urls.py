"""URLs: the admin, and the page that tells a load balancer whether this process can work."""

from django.contrib import admin
from django.urls import path

from project.health import healthz

urlpatterns = [
    path("admin/", admin.site.urls),
    path("healthz", healthz),
]
