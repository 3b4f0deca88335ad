# Two commands for a fresh machine with only python3, pip and make: `make run` and `make test`.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: run test lint bench docs clean

$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

run: $(READY) ## show what evenbeat can do today, on the example files
	@$(PY) examples/tour.py

test: $(READY) ## everything
	$(PY) -m pytest -n auto

lint: $(READY) ## style, types, and who may import whom
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-cache

bench: $(READY) ## ratios against bare baselines measured in the same run
	$(PY) -m evenbeat bench core

docs: $(READY) ## draw the pictures anew, write down what the examples print now, check the links
	$(PY) -m evenbeat spread --tasks 10000 --every 10s,30s,1m,5m,15m,1h --strategy all --seed 1 --plot docs/img/spread.png
	$(PY) -m tools.docs --write
	$(PY) -m pytest tests/test_docs.py

clean:
	rm -rf $(VENV) out
