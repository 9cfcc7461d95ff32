"""URLs: the admin, and the pages that tell a load balancer whether this process lives, and can work."""

from django.contrib import admin
from django.urls import include, path

from project.health import healthz, livez
from project.readiness import readyz

urlpatterns = [
    path("admin/", admin.site.urls),
    path("livez", livez),
    path("readyz", readyz),
    path("healthz", healthz),
    path("", include("ops.urls")),
]
