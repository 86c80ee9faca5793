# Every task of this tree, for people and CI; each target creates .venv first if needed.

# The interpreter that makes .venv: make PYTHON=python3.13 setup
PYTHON ?= python3

# The order of kills in make chaos: make SEED=2 chaos
SEED ?= 1

# Where the ledger of make chaos is: make DATABASE=postgres chaos
DATABASE ?= sqlite

# The broker of make chaos, whose connections are closed: make BROKER=rabbitmq chaos
BROKER ?= valkey

# Whose vectors make bench-retrieval measures: static, minilm, ...
EMBEDDER ?= static

# The releases of sentence-transformers that make test-finetune trains with.
FINETUNE := 6.0 6.2
TORCH_TESTS = $(shell grep -rl --include='test_*.py' MEMTEND_TEST_TORCH tests)

VENV := .venv
BIN := $(VENV)/bin
ROOMS := memcore ops scheduler tasks workers
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install -c constraints.txt
# Where pytest leaves its reports, for the count at the end.
REPORTS := build/tests

# The tools of chart, sbom, audit and hashes, and what an image would hold: each in an environment of its own.
SHIPPING := build/shipping
IMAGE := build/image
SBOM := build/memtend.cdx.json
# The Python of the images, for which hashes are written.
IMAGE_PYTHON ?= python3.12

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: audit chart dist hashes sbom help setup demo demo-finetune pictures up test test-fast test-thorough lint format types docs docs-serve reference bench bench-consolidation bench-distrust bench-finetune bench-growth bench-judgement bench-llm bench-nights bench-origins bench-retrieval chaos clean measure test-finetune

help:  ## Show this list.
	@echo "memtend: make TARGET"
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.core  ## Install memtend[worker] into .venv; then .venv/bin/memtend works.

demo: $(VENV)/.core  ## Start everything in a fresh folder, run a fleet's first maintenance, show it, stop.
	$(BIN)/python -P -m memcore.programs examples.demo --pictures build/demo

demo-finetune: $(VENV)/.finetune  ## Train the fleet's embedder, deploy it and roll back, with figures (installs torch; ten minutes).
	$(BIN)/python -P -m memcore.programs examples.demo.finetuning

pictures: $(VENV)/.core  ## Take the console's pictures of the documentation anew, from the demo's data (needs a Chromium; pngquant makes them small).
	$(BIN)/python -P -m memcore.programs examples.demo --pictures docs/how-to --report build/demo/evaluation.html
	-pngquant --force --ext .png docs/how-to/console-*.png

up: $(VENV)/.core  ## Start the embedded stack in ~/.memtend and keep it alive until Ctrl-C.
	$(BIN)/memtend up

test: lint $(SHIPPING)/.tried  ## Check the code, then run every test: unit and contract, then integration beside acceptance.
	@rm -rf $(REPORTS)
	@mkdir -p $(REPORTS)
	$(BIN)/python -m pytest tests/unit tests/contract -n 2 --dist worksteal --junitxml=$(REPORTS)/1-fast.xml
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=line .integration .acceptance
	@$(BIN)/python tests/tally.py $(REPORTS)

# Side by side: acceptance waits for its processes for much of its time, and integration needs that of the cores.
.PHONY: .integration .acceptance
.integration:
	$(BIN)/python -m pytest tests/integration -n 3 --dist worksteal --junitxml=$(REPORTS)/2-integration.xml

.acceptance:
	$(BIN)/python -m pytest tests/acceptance -n 3 --dist loadfile --junitxml=$(REPORTS)/3-acceptance.xml

test-thorough: export MEMTEND_TEST_THOROUGH := 1
test-thorough: $(VENV)/.dev  ## Run every test at full size, and search for examples that break a property (an hour or two).
	$(BIN)/python -m pytest tests/unit tests/contract tests/integration -n 3 --dist worksteal -o timeout=3600
	$(BIN)/python -m pytest tests/acceptance

test-fast: $(VENV)/.dev  ## Run the tests of plain functions and of every implementation: one minute.
	$(BIN)/python -m pytest tests/unit tests/contract -n 2 --dist worksteal

lint: $(VENV)/.dev types  ## Check style, types and the import rules; change nothing.
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev  ## Check types, of the tests too: mypy strict and basedpyright, side by side.
	@$(MAKE) --no-print-directory --jobs 2 --output-sync .mypy .basedpyright

.PHONY: .mypy .basedpyright
.mypy:
	MYPYPATH=tests $(BIN)/mypy --explicit-package-bases $(ROOMS) tests examples

.basedpyright:
	$(BIN)/basedpyright $(ROOMS) tests examples

docs: $(VENV)/.docs  ## Build the documentation into build/site; a broken link is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/.docs  ## Show the documentation at http://127.0.0.1:8000 and follow changes.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

reference: $(VENV)/.dev  ## Write docs/reference anew: what follows from commands, models, jobs and public names.
	PYTHONPATH=tests $(BIN)/python -m reference

bench: $(VENV)/.dev  ## Measure stores, searches, queues and the scheduler beside limits and peers.
	$(BIN)/python tests/benchmarks/run.py

bench-retrieval: $(VENV)/.dev  ## Measure what is found (LoCoMo from MEMTEND_LOCOMO_DIR) and how fast (EMBEDDER=minilm).
	$(BIN)/python tests/benchmarks/retrieval/run.py --embedder $(EMBEDDER)

bench-consolidation: $(VENV)/.dev  ## Measure what a maintenance run leaves of what agents need (LoCoMo from MEMTEND_LOCOMO_DIR).
	$(BIN)/python tests/benchmarks/consolidation/run.py

bench-growth: $(VENV)/.dev  ## Measure what ninety days at five calls a second leave in ledger, journal and history.
	$(BIN)/python tests/benchmarks/ninety_days.py

bench-judgement: $(VENV)/.dev  ## Measure decisions whose truth is known: what the skill evolver proposes.
	$(BIN)/python tests/benchmarks/judgement/run.py

bench-llm: build/llm/.installed  ## Measure what small local models keep of what people say (1.6 GB of weights; RECORD=1 for make test).
	build/llm/bin/python tests/benchmarks/small_model/run.py $(if $(RECORD),--record)

bench-nights: $(VENV)/.dev  ## Measure what thirty nights leave of what an agent knows, for every strategy (LoCoMo, too).
	$(BIN)/python tests/benchmarks/nights/run.py

bench-distrust: $(VENV)/.dev  ## Take a tool back out of a fleet's memory, after thirty days of merges, and look for it at every door.
	$(BIN)/python tests/benchmarks/distrust/run.py

bench-origins: $(VENV)/.dev  ## Measure whether twelve ways to launder a tool's text raise it, over thirty days.
	$(BIN)/python tests/benchmarks/origins/run.py

bench-finetune: $(VENV)/.dev $(VENV)/.finetune  ## Measure what fine-tuning gains (LoCoMo from MEMTEND_LOCOMO_DIR; installs torch).
	$(BIN)/python tests/benchmarks/finetune/run.py

test-finetune: $(FINETUNE:%=test-finetune-%)  ## Run the tests that need torch, with sentence-transformers 6.0 and 6.2, each under build/.

.PHONY: $(FINETUNE:%=test-finetune-%)
$(FINETUNE:%=test-finetune-%): test-finetune-%: build/finetune-%/.installed
	MEMTEND_TEST_TORCH=1 build/finetune-$*/bin/python -m pytest -v -o timeout=1800 $(TORCH_TESTS)

chart: $(VENV)/.dev $(SHIPPING)/.installed  ## Lint and render the Helm chart, and hold it against Kubernetes' schemas.
	MEMTEND_TEST_HELM=1 $(BIN)/python -m pytest tests/unit/shipping -k chart

sbom: $(SHIPPING)/.installed $(IMAGE)/.installed  ## Write a CycloneDX list of what the image of memtend holds into build.
	@$(SHIPPING)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
		--of JSON -o $(SBOM) $(IMAGE)/bin/python
	@echo "$(SBOM)"

dist: $(VENV)/.core sbom  ## Build the wheel, the source archive and the chart into dist, with the list of parts.
	rm -rf dist
	$(BIN)/hatchling build -t sdist -t wheel
	$(SHIPPING)/bin/python -c 'from helm_python import chart; chart.package("docker/helm/memtend", destination="dist")'
	cp $(SBOM) dist/

audit: $(SHIPPING)/.installed  ## Ask for known vulnerabilities of what the image installs (needs the internet).
	$(SHIPPING)/bin/pip-audit --require-hashes --disable-pip -r docker/requirements-worker.txt

hashes:  ## Write docker/requirements-*.txt anew, with the hash of every file (IMAGE_PYTHON, minutes).
	@$(IMAGE_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' || \
		{ echo "hashes are for Python 3.12: make IMAGE_PYTHON=/path/to/python3.12 hashes" >&2; exit 1; }
	$(IMAGE_PYTHON) -m venv build/hashes
	build/hashes/bin/python -m pip --disable-pip-version-check -qq install \
		--require-hashes -r docker/requirements-shipping.txt
	CUSTOM_COMPILE_COMMAND="make hashes" build/hashes/bin/pip-compile --config docker/pip-tools.toml \
		-c constraints.txt --extra worker --extra postgres --extra otel --build-deps-for wheel \
		-o docker/requirements-worker.txt pyproject.toml
	CUSTOM_COMPILE_COMMAND="make hashes" build/hashes/bin/pip-compile --config docker/pip-tools.toml \
		-o docker/requirements-shipping.txt docker/requirements-shipping.in

measure: $(VENV)/.dev  ## Measure the code: files, cycles, words, and the files that one memory passes through (two minutes).
	$(BIN)/python tests/measure/tree.py
	$(BIN)/python tests/measure/walks.py

chaos: $(VENV)/.dev  ## Kill every part again and again under load, then account for every job (five minutes).
	$(BIN)/python tests/chaos/run.py --seed $(SEED) --database $(DATABASE) --broker $(BROKER)

clean:  ## Remove .venv, caches and build output; data folders stay.
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(ROOMS) tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps: a change of versions or of the package's data installs anew, nothing else does.
$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing memtend into $(VENV) ..."
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation -e ".[worker]"
# The weights of the default embedder have no wheel for Python 3.14; they are data files, and those of 3.13 serve.
	@$(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("wordllama") is None)' || \
		$(PIP) --no-deps --only-binary=:all: --python-version 3.13 wordllama \
		--target "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "Installing what the tests need into $(VENV) ..."
	@$(PIP) --no-build-isolation -e ".[dev,postgres]"
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@echo "Installing what the documentation needs into $(VENV) ..."
	@$(PIP) --no-build-isolation -e ".[docs]"
	@touch $@

$(SHIPPING)/.installed: docker/requirements-shipping.txt | $(BIN)/python
	@echo "Installing the tools that charts and lists of parts need into $(SHIPPING) ..."
	@$(BIN)/python -m venv $(SHIPPING)
	@$(SHIPPING)/bin/python -m pip --disable-pip-version-check -qq install --require-hashes --only-binary=:all: -r $<
	@touch $@

# For make test: where the tools cannot be had, the tests that need them are skipped.
$(SHIPPING)/.tried: docker/requirements-shipping.txt | $(BIN)/python
	@$(MAKE) --no-print-directory $(SHIPPING)/.installed || echo "Going on without the tools in $(SHIPPING)."
	@mkdir -p $(SHIPPING) && touch $@

# As docker/worker.Dockerfile installs it.
$(IMAGE)/.installed: docker/requirements-worker.txt pyproject.toml | $(BIN)/python
	@echo "Installing what the image holds into $(IMAGE) ..."
	@$(BIN)/python -m venv $(IMAGE)
	@$(IMAGE)/bin/python -m pip --disable-pip-version-check -qq install --require-hashes -r $<
	@$(IMAGE)/bin/python -m pip --disable-pip-version-check -qq install --no-deps --no-build-isolation .
	@$(IMAGE)/bin/python -m pip --disable-pip-version-check -qq uninstall -y hatchling setuptools pip
	@touch $@

# The finetune extra writes what torch trained; minilm serves what it is compared with.
$(VENV)/.finetune: $(VENV)/.core
	@echo "Installing torch and what training needs into $(VENV) ..."
	@$(PIP) --no-build-isolation -e ".[finetune,minilm,worker]"
	@touch $@

# llama.cpp's server, and what its weights are written with; pip is what fetches the wheels with the weights.
build/llm/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing llama.cpp's server into build/llm ..."
	@$(BIN)/python -m venv build/llm
	@build/llm/bin/python -m pip --disable-pip-version-check -qq install -c constraints.txt -e ".[local-llm]"
	@touch $@

# Without constraints.txt, whose huggingface_hub is newer than 6.0 takes.
$(FINETUNE:%=build/finetune-%/.installed): build/finetune-%/.installed: pyproject.toml | $(BIN)/python
	@echo "Installing torch and sentence-transformers $* into build/finetune-$* ..."
	@$(BIN)/python -m venv build/finetune-$*
	@build/finetune-$*/bin/python -m pip --disable-pip-version-check -qq install \
		-e ".[dev,finetune,postgres]" "sentence-transformers==$*.*"
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "memtend needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 setup" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
