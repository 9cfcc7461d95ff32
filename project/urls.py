"""URLs: the operators' pages, the admin, and the pages that tell whether this process lives, and can work."""

from django.contrib import admin
from django.urls import include, path

from project.health import healthz, livez
from project.readiness import readyz

urlpatterns = [
    path("", include("ops.urls")),
    path("sign-in/", include("project.logins.urls")),
    path("admin/", admin.site.urls),
    path("livez", livez),
    path("readyz", readyz),
    path("healthz", healthz),
]
