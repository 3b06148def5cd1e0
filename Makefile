# Everything that is run here is run through these targets; `make` lists them.
# Nothing is written outside this folder.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first of these that runs and is 3.11 or newer; PYTHON=… names another.
CANDIDATES := python3.11 python3 python3.14 python3.13 python3.12
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach name,$(CANDIDATES),$(shell $(name) -c '$(IS_NEW_ENOUGH)' >/dev/null 2>&1 && echo $(name))))
VENV := .venv
BIN := $(VENV)/bin
SAM_VENV := .venv-sam
LOCK_VENV := .venv-lock
MUTANTS_VENV := .venv-mutants
CDK_VENV := .venv-cdk
RELEASE_VENV := .venv-release
SITE_VENV := .venv-site
UV_VERSION := 0.13.8
ENGINES := engines
DYNOXIDE := $(ENGINES)/bin/dynoxide-$(shell cat $(ENGINES)/dynoxide/version)
# What a target that needs a DynamoDB depends on: nothing where DYNAMODB_ENDPOINT names one.
DYNAMODB := $(if $(DYNAMODB_ENDPOINT),,$(DYNOXIDE))

# Bytecode is kept, whatever the shell says: without it each run compiles 300 test modules anew, once a core.
unexport PYTHONDONTWRITEBYTECODE

# Caches stay in this folder, too (those of ruff, mypy, pytest and coverage by pyproject.toml).
export PYRIGHT_PYTHON_CACHE_DIR := $(CURDIR)/.cache/pyright
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/.cache/hypothesis
export PIP_CACHE_DIR ?= $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ------------------------------------------------------------------ set-up

# The locks are whole: pip resolves nothing, and takes no file but the one that was locked.
# $(call install,ENVIRONMENT,LOCK,OPTIONS): one dot a package, and pip's own words only if it fails.
define install
	@echo "Installing $$(grep -c '==' $(2)) packages ($(2)) into $(1), once"
	@$(1)/bin/python -m pip install --no-deps --require-hashes --progress-bar=off --requirement $(2) $(3) \
		| awk '/^Collecting/ {printf "."; fflush()} END {print ""}' \
		|| { echo "pip could not install $(2): can this machine reach a package index (PyPI, or PIP_INDEX_URL)?" >&2; exit 1; }
endef

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or say where it is with PYTHON=…" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not installed." >&2; exit 1; }
	@$(PYTHON) -c '$(IS_NEW_ENOUGH)' || { echo "$(PYTHON) is too old, or does not run: Python 3.11 or newer is needed." >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: requirements/demo.txt pyproject.toml | $(BIN)/python
	$(call install,$(VENV),$<)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt tools/pyproject.toml $(VENV)/.demo
	$(call install,$(VENV),$<)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable tools
	@touch $@

# Tools that must not share .venv have an environment of their own, each from its lock. Bytecode comes at
# first use: most of the CDK's 1,600 modules are never imported.
.venv-%/.installed: requirements/%.txt | $(BIN)/python
	@test -x .venv-$*/bin/python || $(BIN)/python -m venv .venv-$*
	$(call install,.venv-$*,$<,--no-compile)
	@touch $@

.PHONY: setup
setup: $(VENV)/.dev ## Set up .venv from the lock (the other targets do it themselves)

# ------------------------------------------------------------------ see it work

.PHONY: demo
demo: $(VENV)/.demo ## Show what goes wrong without the package and with it, on an in-process DynamoDB or ENDPOINT=http://…
	@$(BIN)/python -m examples.demo $(if $(ENDPOINT),--endpoint $(ENDPOINT))

# ------------------------------------------------------------------ check it

# Which tests run where: by their folder and marks. tests/structure/test_division.py holds that none is left out.
ON_ALL_CORES := --numprocesses=auto --dist=worksteal
WITHOUT_ENGINE := not engine and not e2e and not site
# The runtime, its guarantees with their twins, and what a newcomer pastes first.
FIRST := $(addprefix tests/,core sources stores engine decorators dynamodb observability guarantees)
FIRST_SNIPPETS := $(patsubst %,tests/docs/test_snippets.py::test_the_python_of_a_page_runs[%],README.md docs/tutorial.md)
BESIDES := $(filter-out $(FIRST) tests/e2e tests/site,$(sort $(foreach file,$(wildcard tests/*/test_*.py tests/*/*/test_*.py),\
	$(word 1,$(subst /, ,$(file)))/$(word 2,$(subst /, ,$(file))))))

.PHONY: test
test: lint typecheck ## Lint, type-check, and run the tests of the runtime and of every guarantee, in some minutes
	@$(BIN)/python -m pytest -q -m "$(WITHOUT_ENGINE) and not timed" $(ON_ALL_CORES) $(FIRST) $(FIRST_SNIPPETS)
	@echo "make test-rest runs what measures time, the examples' tests, and" $(notdir $(BESIDES))

.PHONY: test-rest
test-rest: $(VENV)/.dev ## Run what make test leaves out and needs no engine; last, in one process, what measures time
	@$(BIN)/python -m pytest -q -m "$(WITHOUT_ENGINE) and not timed" $(ON_ALL_CORES) \
		$(FIRST:%=--ignore=%) $(FIRST_SNIPPETS:%=--deselect=%)
	@$(BIN)/python -m pytest -q -m "$(WITHOUT_ENGINE) and timed"
	@echo "Engines, sam local, the site and other Pythons have targets of their own: make lists them."

.PHONY: lint
lint: $(VENV)/.dev ## Lint and check the formatting
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

.PHONY: format
format: $(VENV)/.dev ## Format, and fix what can be fixed
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

.PHONY: typecheck
typecheck: $(VENV)/.dev ## Check the types with mypy
	@$(BIN)/mypy

.PHONY: pyright
pyright: $(VENV)/.dev ## Check with pyright what callers' editors infer (needs Node.js)
	@$(BIN)/pyright

.PHONY: coverage
coverage: $(VENV)/.dev ## Run the tests with branch coverage; core must have all of it
	@$(BIN)/python -m pytest -m "not engine and not e2e and not site" --cov --cov-report=term
	@$(BIN)/coverage report --include='*/lambda_once/core/*' --fail-under=100

# Left out: what has a clock of its own throughout, and TLS, as OpenSSL reads another clock than is moved here.
DATELESS := simulation stores patterns engine fuzz faults chaos model dynamodb
.PHONY: test-later
test-later: $(VENV)/.dev ## Run what can know a date 400 days from now (DAYS=…)
	@DAYS_LATER=$(or $(DAYS),400) $(BIN)/python -m pytest -q -m "$(WITHOUT_ENGINE) and not timed" \
		$(ON_ALL_CORES) $(DATELESS:%=--ignore=tests/%)

.PHONY: engine-tests
engine-tests: $(VENV)/.dev $(CDK_VENV)/.installed $(DYNAMODB) queue ## Run the tests that need a DynamoDB (dynoxide, or DYNAMODB_ENDPOINT=…), ElasticMQ or the CDK
	@$(BIN)/python -m pytest -m "engine and not timed" $(ON_ALL_CORES)
	@$(BIN)/python -m pytest -m "engine and timed"

.PHONY: test-versions
test-versions: | $(BIN)/python ## Run the fast tests on the newer Pythons, and on the oldest packages that are allowed
	@$(BIN)/python -m tests.versions

.PHONY: chaos
chaos: $(VENV)/.dev $(DYNOXIDE) ## Kill, pause and cut off processes under load, on dynoxide (SEED=…, DURATION=seconds, CLIENT=…)
	@$(BIN)/python -m tests.chaos.load $(if $(SEED),--seed $(SEED)) $(if $(DURATION),--seconds $(DURATION)) \
		$(if $(CLIENT),--client $(CLIENT)) $(if $(ENDPOINT),--endpoint $(ENDPOINT))

.PHONY: e2e
e2e: $(VENV)/.dev $(SAM_VENV)/.installed $(DYNOXIDE) queue ## Run the samples under sam local, and the first commands of a new user (needs Docker, Rust, Java 17 and Maven)
	@$(BIN)/python -m tests.e2e.image
	@$(BIN)/python -m pytest -m e2e tests/e2e

.PHONY: bench
bench: $(VENV)/.dev $(DYNAMODB) ## Measure beside Powertools, in two to three minutes (QUICK=1: in one)
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

.PHONY: bench-counts
bench-counts: $(VENV)/.dev $(DYNAMODB) ## Count instructions beside Powertools, in a minute (needs valgrind, or apt-get as root)
	@$(BIN)/python -m benchmarks.counts

.PHONY: fuzz
fuzz: $(VENV)/.dev ## Put N=n inputs through every door: only documented exceptions come out
	@FUZZ=$(or $(N),10000) $(BIN)/python -m pytest -q tests/fuzz

.PHONY: docs
docs: $(VENV)/.dev $(DYNAMODB) ## Measure again, and write every table and picture of docs/ that a program makes (minutes)
	@$(BIN)/python -m benchmarks --docs
	@$(BIN)/python -m benchmarks.counts --docs
	@$(BIN)/python -m benchmarks.costs --docs
	@$(BIN)/python -m benchmarks.mix --docs
	@$(BIN)/python -m tests.cli.pictures
	@$(BIN)/python -m tests.demo.pictures
	@$(BIN)/python -m tests.stack.rings --docs

.PHONY: model
model: $(VENV)/.dev ## Check the TLA+ model with TLC, or only ONLY="twins/ghost …" with its trace (needs Java 17)
	@$(BIN)/python model/check.py $(ONLY)

.PHONY: simulate
simulate: $(VENV)/.dev ## Play SEEDS=n schedules of faults, from seed FROM=m on, and tell each that breaks a promise
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),10000) --first $(or $(FROM),0)

.PHONY: mutants
mutants: $(MUTANTS_VENV)/.installed ## Change core, dynamodb, stores, engine, decorators and sources in each way that mutmut knows, and print what no fast test notices (ONLY="lambda_once.core.lifecycle*"; hours without)
	@$(MUTANTS_VENV)/bin/mutmut run $(if $(ONLY),"$(ONLY)")
	@$(MUTANTS_VENV)/bin/mutmut results

.PHONY: engine
engine: $(VENV)/.dev $(DYNOXIDE) ## Run dynoxide, a DynamoDB, on a free loopback port, and print its endpoint, until Ctrl-C (needs Rust)
	@$(BIN)/python -m tests.kit.dynoxide

$(DYNOXIDE): $(ENGINES)/dynoxide/version
	@$(ENGINES)/dynoxide/build

.PHONY: queue
queue: $(ENGINES)/elasticmq/lib ## Fetch ElasticMQ, a queue with the interface of SQS (needs Java 17 and Maven)

$(ENGINES)/elasticmq/lib: $(ENGINES)/elasticmq/pom.xml
	@$(ENGINES)/elasticmq/fetch

.PHONY: validate
validate: $(SAM_VENV)/.installed ## Validate the sample's template and the shop's with the SAM CLI
	@for folder in . examples/orders; do (cd $$folder && AWS_DEFAULT_REGION=$${AWS_DEFAULT_REGION:-eu-central-1} SAM_CLI_TELEMETRY=0 \
		__SAM_CLI_APP_DIR=$(CURDIR)/.cache/sam $(CURDIR)/$(SAM_VENV)/bin/sam validate --lint) || exit 1; done

.PHONY: aws
aws: $(VENV)/.dev $(RELEASE_VENV)/.installed ## Try the sample in your AWS account, some 15 minutes, and delete everything (REGION=…, RUNTIME=…, ARCHITECTURE=…; DELETE=name): docs/aws.md
	@exec $(BIN)/python -m tests.aws $(if $(REGION),--region $(REGION)) $(if $(RUNTIME),--runtime $(RUNTIME)) \
		$(if $(ARCHITECTURE),--architecture $(ARCHITECTURE)) $(if $(ONLY),--only $(ONLY)) $(if $(DELETE),--delete $(DELETE))

# ------------------------------------------------------------------ release it

.PHONY: build
build: $(RELEASE_VENV)/.installed ## Build sdists and wheels of the last commit into dist/, twice alike, check and use them (TAG=v1.2.3: as that release)
	@release/build "$(TAG)"

.PHONY: surface
surface: $(VENV)/.dev ## Accept a change of the public surface (docs/versioning.md): write the parameters of options, and tests/golden/surface.txt
	@$(BIN)/python -m tests.signatures
	@$(BIN)/python -m tests.surface

.PHONY: layer
layer: $(RELEASE_VENV)/.installed ## Write dist/layer.zip and its bill of materials for this machine's Python, or for RUNTIME=python3.14 ARCHITECTURE=arm64
	@release/layer

ACTIONLINT_VERSION := v1.7.12
ACTIONLINT := .cache/actionlint/$(ACTIONLINT_VERSION)/actionlint

# Built from source, for its packages elsewhere download a binary. -modcacherw: so that make clean can remove it.
$(ACTIONLINT):
	@command -v go >/dev/null || { echo "actionlint is built with Go: install Go 1.21 or newer." >&2; exit 1; }
	@echo "Building actionlint $(ACTIONLINT_VERSION)"
	@GOBIN=$(CURDIR)/$(@D) GOPATH=$(CURDIR)/.cache/go GOCACHE=$(CURDIR)/.cache/go/build GOFLAGS=-modcacherw \
		go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

# One lock after the other: two in one run are taken for one environment, with duplicates. Nothing is resolved or
# installed, and pins for other platforms than this one are left out. OSV has the advisories of PyPI and GitHub.
LOCKS := $(sort $(wildcard requirements/*.txt)) src/requirements.txt
AUDIT = $(RELEASE_VENV)/bin/pip-audit --strict --disable-pip --progress-spinner=off --vulnerability-service=osv \
	$(if $(OSV),--osv-url=$(OSV))

.PHONY: audit
audit: $(RELEASE_VENV)/.installed ## Look up every pin of the locks for known vulnerabilities, at osv.dev (OSV=http://…: elsewhere)
	@failed=; for lock in $(LOCKS); do echo "$$lock"; $(AUDIT) --requirement="$$lock" || failed="$$failed $$lock"; done; \
	if [[ -n "$$failed" ]]; then echo "Vulnerable, or not audited:$$failed" >&2; exit 1; fi

.PHONY: lint-workflows
lint-workflows: $(ACTIONLINT) $(RELEASE_VENV)/.installed ## Lint .github/workflows with actionlint and zizmor (needs Go)
	@$(ACTIONLINT) -shellcheck= -pyflakes=
	@$(RELEASE_VENV)/bin/zizmor --offline --quiet --persona=pedantic .github

# ------------------------------------------------------------------ the site

MERMAID_VERSION := 12.3.0
MERMAID := .cache/mermaid-$(MERMAID_VERSION).min.js
MERMAID_SHA256 := 336df803d87a38b70a01e736e666c8f7601d2ce42f5e47c8fafe5d721074b9a3
MODULES := lambda_once lambda_once.patterns lambda_once.patterns.fifo lambda_once.dynamodb lambda_once.testing

$(MERMAID):
	@command -v npm >/dev/null || { echo "npm fetches mermaid: install Node.js." >&2; exit 1; }
	@mkdir -p $(@D) && npm pack --silent --pack-destination=$(@D) mermaid@$(MERMAID_VERSION) >/dev/null
	@tar -xzOf $(@D)/mermaid-$(MERMAID_VERSION).tgz package/dist/mermaid.min.js >$@
	@rm $(@D)/mermaid-$(MERMAID_VERSION).tgz
	@echo "$(MERMAID_SHA256)  $@" | sha256sum --check --quiet

.PHONY: site
site: $(SITE_VENV)/.installed $(MERMAID) ## Build the pages and the docstrings as a site, into build/site (needs npm once, for mermaid)
	@rm -rf build/pages build/site && mkdir -p build/pages/reference
	@git ls-files -z -- . ':!findings' | tar --create --null --files-from=- | tar --extract --directory=build/pages
	@for module in $(MODULES); do printf '# `%s`\n\n::: %s\n' $$module $$module >build/pages/reference/$$module.md; done
	@cp $(MERMAID) build/pages/mermaid.min.js
	@cp release/site/site.css build/pages
	@cp release/site/zensical.toml build
	@$(SITE_VENV)/bin/zensical build --clean --strict --config-file build/zensical.toml

.PHONY: site-test
site-test: site ## Open the site in a headless Chromium: links, search, diagrams, phones, dark mode, accessible names
	@$(SITE_VENV)/bin/python -m tests.site.chromium
	@$(SITE_VENV)/bin/python -m pytest -m site --confcutdir=tests/site tests/site

# ------------------------------------------------------------------ keep it

COMPILE = $(LOCK_VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --no-annotate --cache-dir .cache/uv $(if $(UPGRADE),--upgrade)

.PHONY: lock
lock: | $(BIN)/python ## Pin requirements/*.txt and the layer from pyproject.toml (UPGRADE=1: to the newest)
	@test -x $(LOCK_VENV)/bin/python || $(BIN)/python -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet uv==$(UV_VERSION)
	@$(COMPILE) --group dev pyproject.toml --output-file requirements/dev.txt
	@$(COMPILE) --group demo pyproject.toml --constraint requirements/dev.txt --output-file requirements/demo.txt
	@$(COMPILE) --group mutants pyproject.toml --constraint requirements/dev.txt --output-file requirements/mutants.txt
	@$(COMPILE) --group pyproject.toml:layer --constraint requirements/dev.txt --output-file src/requirements.txt
	@$(COMPILE) --group pyproject.toml:release --output-file requirements/release.txt
	@$(COMPILE) --group pyproject.toml:site --output-file requirements/site.txt
	@$(COMPILE) --group pyproject.toml:sam --output-file requirements/sam.txt
	@$(COMPILE) --group pyproject.toml:cdk --output-file requirements/cdk.txt

.PHONY: clean
clean: ## Remove all that these targets made, environments and the engine included
	@rm -rf $(VENV) $(VENV)-* mutants $(ENGINES)/*/lib $(ENGINES)/bin .cache .aws-sam examples/*/.aws-sam build dist
	@find src tools tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +
