#!/usr/bin/env bash
# Sets up what the tests need in .venv, then runs them. Arguments are passed on to pytest:
#   bash scripts/test.sh                  everything but the slow ones, in two parts: tests of values are compiled quickly,
#                                         those marked as_users as users' programs are
#   bash scripts/test.sh -m slow          the slow ones
#   bash scripts/test.sh tests/test_posterior.py -k refresh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh
ensure_environment test

run_tests() { .venv/bin/python -m pytest --numprocesses=auto --dist=loadfile --durations=10 "$@"; }

case " $* " in
  *" -m "*) run_tests "$@"; exit ;;
esac
QUICKLY="--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1"  # compiles in half the time
status=0 empty=0
XLA_FLAGS="${XLA_FLAGS:-} $QUICKLY" run_tests -m "not slow and not as_users" "$@" || status=$?
[ "$status" -ne 5 ] || status=0 empty=1  # 5: pytest found none
if [ "$status" -eq 0 ]; then
  run_tests -m "not slow and as_users" "$@" || status=$?
  [ "$status" -ne 5 ] || status=$((empty * 5))
fi
exit "$status"
