# `make demo`, `make test`, `make docs`, `make papers`, `make bench-quick`, `make bench`: each sets up everything it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
MADE := .venv/made

.PHONY: bench bench-quick demo docs papers test

# Held-out figures beside scikit-learn's, and a picture: what it needs, and no more.
demo: .venv/demo
	$(BIN)/python -m skgpx.demo

# Neighbouring tests go to one worker, which makes what they share once.
test: $(INSTALLED)
	MPLBACKEND=Agg $(BIN)/python -m pytest -n auto --dist worksteal

# Pages and gallery, in docs/build/html; a warning is an error.
docs: $(BIN)/documented
	rm -rf docs/gallery docs/generated
	$(BIN)/python -m sphinx -q -W --keep-going -j auto -d docs/build/doctrees docs docs/build/html

# With what the tests need: one installation where both are made.
$(BIN)/documented: $(MADE)
	$(BIN)/python -m pip install --quiet --editable ".[docs,plot,test]"
	touch $(INSTALLED) .venv/demo $@

# Tables and figures of the five papers, in results/, by data in the folder that
# SKGPX_PAPER_DATA names (docs/papers.md); ARGUMENTS="000 003 --full" for some of them.
papers: .venv/demo
	OMP_NUM_THREADS=1 $(BIN)/python -m examples.papers $(ARGUMENTS)

# Every table with its peers (hours), or short versions of most (minutes).
bench: $(BIN)/benchmarked
	$(BIN)/python -m benchmarks.run all

bench-quick: $(BIN)/benchmarked
	$(BIN)/python -m benchmarks.run quick

$(BIN)/benchmarked: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch $@

# The stamps are older than pyproject.toml whenever a dependency may have changed.
$(INSTALLED): $(MADE)
	$(BIN)/python -m pip install --quiet --editable ".[plot,test]"
	touch $(INSTALLED) .venv/demo

.venv/demo: $(MADE)
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

# Where Python was built without ensurepip, the pip of $(PYTHON) fills the environment.
$(MADE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "skgpx needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv .venv 2>/dev/null || \
	  { $(PYTHON) -m venv --without-pip .venv && \
	    $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	touch $@
