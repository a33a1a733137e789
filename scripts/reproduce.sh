#!/usr/bin/env bash
# The paper's tables and figures from a machine with nothing but Python: sets up .venv, then runs `jaxband reproduce`.
#   bash scripts/reproduce.sh                      Table 1
#   bash scripts/reproduce.sh lengthscales         another experiment; all further arguments are passed on
#   bash scripts/reproduce.sh --replications 100   Table 1 with other options
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
ensure_environment experiments
case "${1:-}" in "" | -*) set -- table1 "$@" ;; esac
exec .venv/bin/jaxband reproduce "$@"
