.PHONY: setup check
VENV := .venv
PY := $(VENV)/bin/python
setup: $(VENV)/.ready
$(VENV)/.ready: pyproject.toml constraints.txt
	@test -x $(PY) || python3 -m venv $(VENV)
	@$(PY) -m pip install -q -c constraints.txt -e '.[demo,test]'
	@touch $@
check: setup
	$(VENV)/bin/ruff check src tests
	$(VENV)/bin/ruff format --check src tests
	$(VENV)/bin/mypy
