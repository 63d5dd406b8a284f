# The two commands of the README are `make demo` and `make test`. Each sets up what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CDK := node_modules/.ready

.DEFAULT_GOAL := help
.PHONY: help setup cdk demo demo-cdk demo-terraform test test-infrastructure checkov parts behaviour deployment unit conformance agreement bench scale soak check format mutate coverage lock clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup: $(READY) ## Make the virtual environment with everything in requirements.lock

# The marker comes last, so that an interrupted set-up is done again.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Towpath needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements.lock)"
	$(BIN)/uv pip sync --quiet --python $(BIN)/python requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

# Without npm the tests that need the CDK's command line say that they are left out.
cdk: $(CDK) ## Install the CDK's command line into node_modules/, as package-lock.json has it

$(CDK): package.json package-lock.json
	@if command -v npm >/dev/null; then npm ci --no-audit --no-fund --silent && touch $@; \
	  else echo "the CDK's command line is not installed: there is no npm" >&2; fi

demo: setup ## Watch the main path: SQLite, then the same handler in a Lambda zip
	$(BIN)/towpath demo

demo-cdk: setup cdk ## Deploy the quickstart to LocalStack by the CDK, have it handle a message, and remove it
	$(BIN)/python -m tests.servers.cdk_quickstart

demo-terraform: setup ## Deploy the quickstart to LocalStack by Terraform, publish a document, watch the function handle it
	$(BIN)/python -m tests.terraform.demo

# The slow parts mostly wait for processes and servers, each for its own: they run side by side.
test: setup cdk ## Run every test on SQLite, PostgreSQL, LocalStack and awslambdaric
	$(BIN)/pytest --numprocesses=auto tests/architecture tests/unit
	$(MAKE) --no-print-directory --jobs=3 parts behaviour deployment

parts: setup ## Run the tests of single parts on real databases, LocalStack and processes
	$(BIN)/pytest tests/integration

behaviour: setup ## Run the behaviour suite
	$(BIN)/pytest tests/conformance

deployment: setup cdk ## Run the tests of Terraform, the CDK, the gate and the check of bindings, and of what users see
	$(BIN)/pytest tests/deployment tests/acceptance

test-infrastructure: setup cdk ## Deploy and remove more by Terraform and the CDK, on LocalStack (about 10 minutes, most of it waiting)
	$(BIN)/pytest -m infrastructure tests/deployment

checkov: setup ## Look for what is unsafe in the Terraform module; what is skipped says why in its file
	$(PYTHON) -m venv .tools/checkov
	$(BIN)/uv pip sync --quiet --python .tools/checkov/bin/python tests/terraform/checkov.lock
	.tools/checkov/bin/checkov --directory terraform --framework terraform --skip-path examples --skip-path tests \
	  --compact --quiet --skip-download --skip-results-upload

unit: setup ## Run the quick tests only
	$(BIN)/pytest --numprocesses=auto tests/architecture tests/unit

conformance: setup ## Run the behaviour suite on every transport; with AWS=real on an account of yours (docs/how-to)
ifeq ($(AWS),real)
	$(BIN)/python -m tests.servers.real_aws check
	TOWPATH_TEST_AWS=real $(BIN)/pytest tests/conformance -k 'aws-worker or aws-lambda'
else
	$(BIN)/pytest tests/conformance
endif

agreement: setup ## Compare filters with SNS on LocalStack: 1,000 pairs instead of the 200 of make test
	TOWPATH_AGREEMENT_PAIRS=1000 $(BIN)/pytest tests/integration/test_filter_agreement.py

bench: setup ## Measure the database transport beside its peers (about 20 minutes)
	$(PYTHON) -m venv .tools/bench
	$(BIN)/uv pip install --quiet --python .tools/bench/bin/python --requirements requirements.lock --requirements benchmarks/peers.lock
	$(BIN)/uv pip install --quiet --python .tools/bench/bin/python --no-deps --editable .
	.tools/bench/bin/python -m benchmarks.database

scale: setup ## Measure claims with 1,000 to 1,000,000 waiting (about an hour; goes on where it was interrupted)
	@mkdir -p .tools
	$(BIN)/python -m benchmarks.scale --json .tools/scale.json --plot docs/scale.svg
	$(BIN)/python -m benchmarks.churn bloat
	$(BIN)/python -m benchmarks.churn snapshot

soak: setup ## Kill, stall and cut off processes for long and check the history: make soak [SEED=1] [MESSAGES=50000]
	$(BIN)/python -m tests.history --database postgresql $(if $(SEED),--seed $(SEED)) $(if $(MESSAGES),--messages $(MESSAGES))
	$(BIN)/python -m tests.history --database sqlite $(if $(SEED),--seed $(SEED)) --messages $(or $(MESSAGES),10000)

check: setup ## Run all static checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if command -v terraform >/dev/null; then terraform fmt -check -recursive terraform; \
	elif [ "$$CI" = true ]; then echo "there is no terraform to look at terraform/ with" >&2; exit 1; \
	else echo "left out: there is no terraform to look at terraform/ with (1.7 or newer)"; fi

format: setup ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: setup ## Measure which branches of the core the unit tests run; fails below 98 %
	$(BIN)/coverage run -m pytest -q tests/unit
	$(BIN)/coverage report

mutate: setup ## Try small faults in one module: make mutate MODULE=towpath/backoff.py [TESTS=...] [LINES=40:80]
	@test -n "$(MODULE)" || { echo "say which: make mutate MODULE=towpath/backoff.py" >&2; exit 1; }
	$(BIN)/python -m tests.mutation $(MODULE) $(TESTS) $(if $(LINES),--lines $(LINES)) $(if $(JOBS),--jobs $(JOBS))

lock: ## Resolve the dependencies anew into requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --no-header \
	  --extra aws --extra bundling --extra cdk --extra cli --extra lambda --extra local --extra metrics --group dev pyproject.toml -o requirements.lock

clean: ## Remove what the other commands made
	rm -rf $(VENV) .coverage .tools dist node_modules cdk.out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
