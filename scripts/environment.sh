# Sourced by the other scripts: makes .venv with the package and the given extra installed, once per pyproject.toml.

ensure_environment() {
  local extra=$1 python=${PYTHON:-} stamp checksum
  if [ -z "$python" ]; then
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
      if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
    done
  fi
  if [ -z "$python" ]; then
    echo "Python 3.11 or newer is needed; none was found. Install one, or name it: PYTHON=/path/to/python bash $0" >&2
    exit 1
  fi
  [ -x .venv/bin/python ] || { echo "Making .venv" >&2; "$python" -m venv .venv; }
  stamp=.venv/installed-$extra
  checksum=$(cksum < pyproject.toml)
  if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$checksum" ]; then
    echo "Installing jaxband[$extra]; the first time this takes a minute" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$extra]"
    echo "$checksum" > "$stamp"
  fi
}
