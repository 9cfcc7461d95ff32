"""The project's URLs, and those of the tutorial's app."""

from django.urls import include, path

from project.urls import urlpatterns as project_urls

urlpatterns = [*project_urls, path("shop/", include("shop.urls"))]
