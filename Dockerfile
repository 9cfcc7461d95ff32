# One image for every process of the Procfile. It holds no embedded servers: DATABASE_URL and REDIS_URL must be set.

FROM python:3.12-slim AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /venv
WORKDIR /build
# Only what is installed, so that a change of the code does not install it again. pip refuses what has another hash.
# What your apps need beside that is in local/requirements.txt.
COPY requirements.lock local/requirements.txt ./
RUN /venv/bin/pip install --only-binary :all: --require-hashes -r requirements.lock \
    && /venv/bin/pip install -r requirements.txt \
    && /venv/bin/pip uninstall --yes pip

FROM python:3.12-slim
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN groupadd --system --gid 10001 weir && useradd --system --uid 10001 --gid weir --no-create-home weir
COPY --from=builder /venv /venv
WORKDIR /app
COPY . .
# The key signs nothing here: settings want one, and static files do not depend on it.
RUN DJANGO_SECRET_KEY=only-for-this-step python manage.py collectstatic --no-input
# By number: Kubernetes cannot tell whether a name is root's.
USER 10001:10001
EXPOSE 8000
CMD ["uvicorn", "project.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--http", "project.front.server:Protocol", "--ws", "none", "--timeout-graceful-shutdown", "15", "--no-access-log", "--no-proxy-headers"]
