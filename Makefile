# Everything a checkout needs. `make` alone lists the targets; ARGS="..." is handed to all that run something.

PYTHON ?= python3
BIN := .venv/bin
# Tests and demo start many processes: with cached byte code each takes a third less of the processor to start.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help install demo up test deployments matrix lint hooks docs lock sbom pictures faults bench clean

help:
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

install: .venv/.installed ## install Weir and its tools into .venv (PYTHON=... names another Python)

demo: .venv/.installed-embedded ## watch thousands of URLs being fetched from fake sites, each at its own pace
	@$(BIN)/python -m demo $(ARGS)

up: .venv/.installed-embedded ## run web, workers and beat on the embedded servers; data is kept in .weir
	@$(BIN)/python manage.py up $(ARGS)

# A file is run by one process: what a module sets up is set up once. Those that take long wait; others fill their time.
# A process that a test has ended is not replaced: pytest-xdist would wait for the new one for ever (its issue 784).
SLOWEST_FIRST = --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# What happens to an installation, and what takes long, for `make deployments` and CI: CONTRIBUTING.md says what.
DEPLOYMENTS = $(addprefix tests/acceptance/,any_email api/test_bad_requests.py api/test_client.py bell benchmarks \
	digests docs effects failover faults fetches/test_silent_broker.py fetches/test_why_situations.py great_run hardening \
	host mail/test_logs_of_servers.py mail/test_postfix.py mail/test_relay_kills.py ops pooler \
	project/test_reload.py project/test_up_and_demo.py recovery upgrade) \
	$(addprefix tests/integration/,api/test_schema.py benchmarks docs embedded examples fetches/test_large_backlog.py \
	guest integrate notifications/test_user_keys.py packages project/test_own_app.py project/test_rabbitmq.py)

# What was too late twice is run again when nothing runs beside it (tests/put_off.py).
LATE = .weir/late
PUT_OFF = -p tests.put_off --put-off $(LATE)
RUN_LATE = @if [ -s $(LATE) ]; then $(BIN)/python -m pytest @$(LATE); fi

# Most of their time they wait: for a slot, an end, a server.
test: install ## run all tests but those of `make deployments`
ifeq ($(ARGS),)
	$(BIN)/python -m pytest --numprocesses 6 $(SLOWEST_FIRST) $(PUT_OFF) -m "not alone" $(DEPLOYMENTS:%=--ignore=%) tests/acceptance tests/integration tests/unit
	$(RUN_LATE)
else
	$(BIN)/python -m pytest $(ARGS)
endif

# Those of the second part are late where more run beside them; they are few and long, so that two of one file run beside
# each other, too.
deployments: install ## run what the pages say, projects that take Weir up, and all jobs on servers that fail, go back or are upgraded
	$(BIN)/python -m pytest --numprocesses 2 $(SLOWEST_FIRST) $(PUT_OFF) $(or $(ARGS),$(DEPLOYMENTS))
	$(RUN_LATE)
ifeq ($(ARGS),)
	$(BIN)/python -m pytest --numprocesses 2 --dist load --maxschedchunk 1 --max-worker-restart 0 -m alone $(DEPLOYMENTS:%=--ignore=%) tests/acceptance
endif

matrix: install ## run unit and integration tests with each version of Python, Django and servers that there is
	$(BIN)/python -m tests.matrix $(ARGS)

lint: install ## check style, types, the directions of imports, and that migrations only add
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --quiet --no-header tests/unit/project/test_migration_files.py tests/unit/project/test_additive_migrations.py

hooks: install ## from now on, check each commit as `make lint` does, and its subject's length
	$(BIN)/pre-commit install

docs: install ## build the documentation as a site in build/docs; a warning is an error
	@$(BIN)/python -m project.environment.reference
	@$(BIN)/python -m docs.ext.public_names
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html -d build/doctrees docs build/docs
	@echo "The documentation is in build/docs/index.html."

# For every platform and Python that Weir runs on. uv asks the index that its own configuration names.
lock: install ## write requirements.lock: what the image installs, with hashes, by pyproject.toml and constraints.txt
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		-c constraints.txt --extra standalone --output-file requirements.lock pyproject.toml

BUILD ?= build
sbom: install ## write what requirements.lock consists of: build/sbom.cdx.json (CycloneDX), and build/licences.md
	@mkdir -p $(BUILD)
	$(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --mc-type application --output-reproducible \
		--output-format JSON --output-file $(BUILD)/sbom.cdx.json requirements.lock
	$(BIN)/pip-licenses --packages $$(sed -n 's/==.*//p' requirements.lock) --with-system --format markdown --with-urls \
		--output-file $(BUILD)/licences.md

pictures: install ## run the demo, and take the pictures of the operators' pages in docs/images/pages
	@$(BIN)/python -m tests.acceptance.ops.pictures

faults: install ## run the fault tests at length: more kills, more outages, more time
	WEIR_FAULTS=1 $(BIN)/python -m pytest -m faults $(ARGS)

bench: .venv/.installed-bench ## measure against named peers; writes JSON to .weir/bench
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## delete caches, build output and throw-away servers; keeps .venv and what `make up` stored
	@for home in .weir/test .weir/matrix/home .weir/demo .weir/pictures .weir/bench; do \
		if [ -d $$home ]; then \
			$(BIN)/python -c 'import sys, pathlib; from project import embedded; embedded.discard(pathlib.Path(sys.argv[1]))' $$home \
				|| exit 1; \
		fi; \
	done
	rm -rf build staticfiles *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name .venv -prune -o -name .weir -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are newer than what they were made from, or uv runs again. `demo` and `up` do not wait for the tools.
.venv/.installed-embedded: EXTRAS = standalone,embedded
.venv/.installed: EXTRAS = standalone,embedded,dev
.venv/.installed-bench: EXTRAS = standalone,embedded,dev,bench
.venv/.installed-embedded .venv/.installed .venv/.installed-bench: pyproject.toml constraints.txt install.py local/requirements.txt
	@$(call ensure_venv)
	@$(BIN)/python install.py $(EXTRAS)
	@touch .venv/.installed-embedded $@

# pip comes from PYTHON's own, with uv, where that can install into .venv (22.3 or newer): ensurepip takes twice as long.
define ensure_venv
if ! [ -x $(BIN)/pip ]; then \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Weir needs Python 3.11 or newer, which \`$(PYTHON)\` is not: name one, such as make install PYTHON=python3.12." >&2; \
		exit 1; \
	}; \
	echo "Making .venv with $(PYTHON), and fetching uv ..."; \
	$(PYTHON) -m venv --without-pip .venv && { \
		$(PYTHON) -m pip --python $(BIN)/python install --quiet --only-binary :all: -c constraints.txt pip uv 2>/dev/null \
			|| $(BIN)/python -m ensurepip --default-pip >/dev/null; \
	} || { \
		if $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
			echo "$(PYTHON) could not make .venv: the lines above say why. This user must be able to write to this folder." >&2; \
		else \
			echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian: apt install python3-venv)." >&2; \
		fi; \
		exit 1; \
	}; \
fi
endef
