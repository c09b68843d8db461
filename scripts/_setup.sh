# Sourced by the other scripts: makes .venv in the checkout and keeps it in step with the lock file.
# tasuki_setup base|server|dev

set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null 2>&1 && [ -t 0 ]; then sudo "$@"; else return 1; fi
}

# apt_or_brew PROGRAM DEBIAN_PACKAGE BREW_PACKAGE: install a missing program where that is possible.
apt_or_brew() {
  command -v "$1" >/dev/null 2>&1 && return 0
  if command -v apt-get >/dev/null 2>&1; then
    as_root apt-get update -qq >&2 && as_root apt-get install -y -qq --no-install-recommends "$2" >&2 || true
  elif command -v brew >/dev/null 2>&1; then
    brew install "$3" >&2 || true
  fi
  command -v "$1" >/dev/null 2>&1
}

# Debian keeps PostgreSQL's programs out of the PATH.
has_postgres() {
  command -v initdb >/dev/null 2>&1 && return 0
  for program in /usr/lib/postgresql/*/bin/initdb; do
    [ -x "$program" ] && return 0
  done
  return 1
}

# The same names as in tests/support/browser.py.
has_chromium() {
  for program in chromium chromium-browser google-chrome; do
    command -v "$program" >/dev/null 2>&1 && return 0
  done
  return 1
}

find_python() {
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python3.14; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s' "$candidate"; return 0
    fi
  done
  say "tasuki needs Python 3.11 or newer. Debian: apt install python3 python3-venv. macOS: brew install python."
  return 1
}

make_venv() {
  python="$(find_python)"
  "$python" -m venv .venv >/dev/null 2>&1 && return 0
  rm -rf .venv
  if command -v apt-get >/dev/null 2>&1; then
    say "python3-venv is missing; installing it."
    as_root apt-get update -qq >&2 && as_root apt-get install -y -qq --no-install-recommends python3-venv >&2 || true
  fi
  "$python" -m venv .venv || { say "Could not make .venv. Debian: apt install python3-venv"; return 1; }
}

tasuki_setup() {
  lock="requirements/$1.txt"
  stamp=".venv/.tasuki-$1"
  want="$(cat "$lock" pyproject.toml | cksum)"
  for done in .venv/.tasuki-dev "$stamp"; do
    if [ -x .venv/bin/tasuki ] && [ -f "$done" ] && { [ "$done" != "$stamp" ] && [ "$1" != dev ] || [ "$(cat "$done")" = "$want" ]; }; then
      return 0
    fi
  done
  [ -x .venv/bin/python ] || make_venv
  say "Setting up .venv ($1) …"
  .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
  # The lock names everything. Without --no-deps, pip before 23.3 looks for `package[extra]` anew, meets a release
  # that is newer than the lock, and refuses it for want of a hash.
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-input --no-deps --require-hashes -r "$lock" >&2
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-input --no-deps --no-build-isolation -e . >&2
  printf '%s' "$want" > "$stamp"
}
