# The only task runner. `make help` lists what there is; continuous integration runs `make check`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STAMPS := .cache/setup
CARGO := cargo
# The binding is left out of `cargo test`: it holds no logic, and its tests are the Python ones. The
# simulator runs with debug assertions.
CRATES := --workspace --exclude enmasse-binding --exclude enmasse-sim
SIMULATE := $(CARGO) test --profile checked --locked -p enmasse-sim
SETUP_INPUTS := scripts/setup.sh pyproject.toml requirements.lock
# Folders too, so that a removed file counts as a change.
NATIVE_INPUTS := Cargo.toml Cargo.lock pyproject.toml $(wildcard rust-toolchain.toml .cargo/config.toml) \
  $(shell find crates -name tests -prune -o \( -type d -o -name '*.rs' -o -name Cargo.toml \) -print)

# The types of the console come from the models, through the OpenAPI document.
CONSOLE_INPUTS := scripts/console.sh scripts/console_schema.py \
  $(shell find console python/enmasse/resources python/enmasse/api/openapi -name node_modules -prune -o -name generated -prune \
    -o -type f ! -name '*.pyc' -print 2>/dev/null)

# Most tests wait for a server more than they compute: three processes keep two cores busy. A file
# stays in one process, because its tests share servers.
PARALLEL := -n 3 --dist loadfile

# Tests of packages that need neither the native core nor a server.
PURE := tests/base% tests/plan% tests/resources%

# Narrow a run:  make test T=tests/plan    make test-rust C=router    make run ARGS="--amqp-port 0"
T ?= tests
C ?=
ARGS ?=
AGAINST ?=
SPARK ?= 4.3.0

.PHONY: help setup build wheel run test test-rust test-python test-spark check check-all broken-rules prove bench bench-baseline bench-instructions bench-journal docs
.PHONY: missing-native console setup-dev setup-interop format fmt lint types layers tidy reference conformance mqtt-broken-rules lock clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: build $(STAMPS)/console ## Python environment, native core and console: leaves .venv/bin/enmasse

setup-dev: $(STAMPS)/dev build $(STAMPS)/console

setup-interop: $(STAMPS)/interop build $(STAMPS)/console

$(STAMPS)/%: $(SETUP_INPUTS)
	@scripts/setup.sh $*
	@mkdir -p $(STAMPS) && touch $@

build: $(STAMPS)/native ## compile the native core (release profile, the one of the tests) into .venv

# Up to date while no source of the core is newer: an unchanged tree starts no compiler.
$(STAMPS)/native: $(STAMPS)/run $(NATIVE_INPUTS) $(if $(wildcard python/enmasse/_native*.so),,missing-native)
	@ls python/enmasse/_native*.so >/dev/null 2>&1 || echo "build: compiling the native core; the first time takes minutes"
	@$(BIN)/maturin develop --release --locked --uv --quiet
	@touch $@

missing-native: ;

# Without Node.js or network the script says so and leaves no stamp, so the next call tries again.
$(STAMPS)/console: $(STAMPS)/run $(CONSOLE_INPUTS)
	@scripts/console.sh build $@

wheel: $(STAMPS)/run $(STAMPS)/console ## the wheel (abi3) and the source distribution, into build/wheels
	@rm -rf build/wheels
	@$(BIN)/maturin build --release --locked --quiet --interpreter $(BIN)/python --out build/wheels
	@$(BIN)/maturin sdist --out build/wheels

run: setup ## start the platform on loopback and pass a first message through it
	@$(BIN)/python scripts/run.py $(ARGS)

test: test-rust test-python ## all tests but the slow ones

test-rust: ## Rust tests; C=router narrows to one crate
	$(if $(filter sim,$(C)),,$(CARGO) test --release --locked $(if $(C),-p enmasse-$(C),$(CRATES)))
	$(if $(filter-out sim,$(C)),,$(SIMULATE))

test-python: $(if $(filter-out $(PURE),$(T)),setup-dev,$(STAMPS)/unit) ## Python tests; T=tests/plan narrows to a part
	$(BIN)/pytest -m "not slow" --durations=15 $(if $(filter tests,$(T)),$(PARALLEL)) $(T) $(ARGS)

test-spark: setup-dev ## the pipeline's tests of Spark on another PySpark; SPARK=4.3.0 says which
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python \
	  --target .cache/pyspark-$(SPARK) pyspark==$(SPARK)
	PYTHONPATH=$(CURDIR)/.cache/pyspark-$(SPARK) $(BIN)/pytest $(ARGS) \
	  $(addprefix tests/pipeline/connector/test_,spark.py sink.py spark_queue.py) \
	  $(addprefix tests/pipeline/test_,pipeline.py upgrade.py)

console: setup-dev ## the console: formatting, lint, types and component tests
	@scripts/console.sh check

check: ## all that continuous integration runs; ends with the duration of each stage
	@MAKE=$(MAKE) scripts/stages.sh setup-dev format lint types layers tidy console test-rust test-python

format: $(STAMPS)/dev ## formatting, both languages (`make fmt` mends it)
	$(CARGO) fmt --all --check
	$(BIN)/ruff format --check .

fmt: $(STAMPS)/dev ## rewrite the files as `format` wants them
	$(CARGO) fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMPS)/dev ## clippy and ruff, warnings denied
	$(CARGO) clippy --release --locked --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .

types: setup-dev ## mypy strict, and the stub of the native module against the module
	$(BIN)/mypy
	$(BIN)/stubtest enmasse._native --mypy-config-file pyproject.toml

layers: $(STAMPS)/dev ## who may import whom
	PYTHONPATH=python $(BIN)/lint-imports --no-cache

tidy: $(STAMPS)/dev ## house rules: sizes, names, examples, documents
	$(BIN)/pytest -q tests/test_tidy.py tests/test_retired_words.py tests/test_docs.py tests/test_rust_modules.py

check-all: setup-interop format lint types layers tidy console ## check, all foreign clients, and longer fuzz and simulation
	BOLERO_RANDOM_TEST_TIME_MS=60000 ENMASSE_CRASH_RUNS=5000 $(CARGO) test --release --locked $(CRATES)
	ENMASSE_SIM_RUNS=5000 $(SIMULATE)
	$(MAKE) broken-rules
	ENMASSE_PIPELINE_KILLS=100 $(BIN)/pytest --hypothesis-profile=exploring $(T) $(ARGS)
	$(MAKE) test-spark

broken-rules: ## the simulator finds each rule broken on purpose; ARGS="--seeds 100 clean-ends-are-attempts" narrows
	@python3 scripts/broken_rules.py $(ARGS)

prove: setup-dev ## kill -9 again and again under load, drawn into build/prove/report.html; ARGS="--seconds 60 --seed 1"
	PYTHONPATH=tests $(BIN)/python -m prove $(ARGS)

bench: setup ## figures as ratios to the bare forwarder, Artemis and RabbitMQ beside it
	$(CARGO) build --release --locked -p enmasse-forwarder -p enmasse-load -p enmasse-journal-bench
	$(BIN)/python bench/run.py $(ARGS)

bench-baseline: setup ## this checkout beside another one that is set up; AGAINST=DIR names it
	$(CARGO) build --release --locked -p enmasse-load
	$(BIN)/python bench/baseline.py --against $(AGAINST) $(ARGS)

bench-instructions: ## instructions a message of this checkout beside another one; AGAINST=DIR names it
	@python3 bench/instructions.py --against $(AGAINST) $(ARGS)

bench-journal: ## commits of the journal beside bare writes and syncs, and how long it takes to open
	$(CARGO) run --release --locked -p enmasse-journal-bench -- $(ARGS)

docs: $(STAMPS)/docs ## build the documentation into site/
	rm -rf site && $(BIN)/zensical build --strict

reference: setup-dev ## write the pages of reference into docs/reference, from the models
	$(BIN)/python scripts/reference.py

conformance: ## write docs/mqtt-conformance.md from the tests that name statements of MQTT
	@python3 scripts/mqtt_conformance.py

mqtt-broken-rules: ## break rules of MQTT one after another; a test must fail for each
	@python3 scripts/mqtt_broken_rules.py $(ARGS)

lock: $(STAMPS)/dev ## resolve the Python dependencies anew
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra node --python-version 3.11 --universal --upgrade --quiet \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate -o requirements.lock

clean: ## remove what was built, but not the data of `enmasse up`
	rm -rf .venv .cache build site target console/node_modules python/enmasse/console_assets
