#!/usr/bin/env bash
# Sets up what the tests need in .venv, then runs them. Arguments are passed on to pytest:
#   bash scripts/test.sh                  everything but the slow ones
#   bash scripts/test.sh -m slow          the slow ones
#   bash scripts/test.sh tests/test_posterior.py -k refresh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
ensure_environment test
exec .venv/bin/python -m pytest --numprocesses=auto --dist=loadfile "$@"
