# Sourced by the other scripts: makes .venv in the checkout and keeps it in step with the lock file.
# tasuki_setup base|server|dev

set -eu
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE # else each program that a test starts compiles tasuki again

say() { printf '%s\n' "$*" >&2; }

# Root and CI install at once; anybody else is asked first, and only in a terminal.
as_root() {
  [ "$(id -u)" = 0 ] && { "$@"; return; }
  command -v sudo >/dev/null 2>&1 && [ -t 0 ] || return 1
  printf 'Run sudo %s? [y/N] ' "$*" >&2
  read -r answer
  case $answer in [yY]*) sudo "$@" ;; *) return 1 ;; esac
}

# install_packages DEBIAN_PACKAGES BREW_PACKAGES: install them where that is possible. A list of one is a word.
install_packages() {
  if command -v apt-get >/dev/null 2>&1; then
    as_root sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends $1" >&2 || true
  elif command -v brew >/dev/null 2>&1; then
    brew install $2 >&2 || true
  fi
}

# need_program PROGRAM DEBIAN_PACKAGE BREW_PACKAGE: install a missing program where that is possible.
need_program() {
  command -v "$1" >/dev/null 2>&1 || install_packages "$2" "$3"
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

# need_postgres WHAT: install PostgreSQL where that is possible; end if it is missing.
need_postgres() {
  has_postgres || install_packages postgresql postgresql
  has_postgres || { say "$1 needs PostgreSQL. Debian: apt install postgresql. macOS: brew install postgresql."; exit 1; }
}

# The same names as in tests/support/browser.py.
has_chromium() {
  for program in chromium-headless-shell chromium chromium-browser google-chrome; do
    command -v "$program" >/dev/null 2>&1 && return 0
  done
  return 1
}

# The same places as in tests/support/caddy.py.
has_caddy() {
  command -v caddy >/dev/null 2>&1 || [ -x "${TASUKI_TEST_CACHE:-.cache}/caddy/usr/bin/caddy" ]
}

# Debian's package would start a web server on port 80. Only its program is taken, 36 MB.
take_caddy() {
  has_caddy && return 0
  if command -v apt-get >/dev/null 2>&1; then
    folder="${TASUKI_TEST_CACHE:-.cache}/caddy"
    (mkdir -p "$folder" && cd "$folder" && apt-get download -qq caddy && dpkg-deb -x caddy_*.deb . && rm -f caddy_*.deb) >&2 || true
  elif command -v brew >/dev/null 2>&1; then
    brew install caddy >&2 || true
  fi
}

# A line for each program that tests need and that is missing: DEBIAN_PACKAGE BREW_PACKAGE WHAT_IS_SKIPPED
list_missing() {
  command -v git >/dev/null 2>&1 || echo "git git what reads a repository"
  command -v tmux >/dev/null 2>&1 || echo "tmux tmux agents in panes, the whole fleet"
  command -v npm >/dev/null 2>&1 || echo "npm node the real programs"
  has_postgres || echo "postgresql postgresql the fleet's database on PostgreSQL"
  has_chromium || echo "chromium chromium the pages in a browser"
}

# The same names as in tests/browser/test_browser_firefox.py.
has_firefox() { command -v firefox-esr >/dev/null 2>&1 || command -v firefox >/dev/null 2>&1; }

# Install what list_missing lists, where that is possible, and Caddy; in CI also Firefox, and the Chromium that costs the pages' tests a third less.
install_missing() {
  missing="$(list_missing)"
  if [ -n "$missing" ]; then
    debian="$(printf '%s\n' "$missing" | cut -d' ' -f1 | tr '\n' ' ')"
    say "Installing $debian…"
    install_packages "$debian" "$(printf '%s\n' "$missing" | cut -d' ' -f2 | tr '\n' ' ')"
  fi
  take_caddy
  [ "${CI:-}" != true ] || need_program chromium-headless-shell chromium-headless-shell chromium || true
  [ "${CI:-}" != true ] || has_firefox || install_packages firefox-esr firefox
}

# Say what is missing and what it costs; fail if anything is.
report_missing() {
  missing="$(list_missing)"
  has_caddy || say "caddy is missing. Not tested: the dashboard behind a real TLS proxy."
  has_firefox || say "firefox is missing. Not tested: the dashboard in Firefox."
  [ -n "$missing" ] || return 0
  printf '%s\n' "$missing" | while read -r package _ skipped; do say "$package is missing. Not tested: $skipped."; done
  say "scripts/setup installs it."
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
    install_packages python3-venv ""
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
  # The lock names everything. Without --no-deps, pip before 23.3 looks for `package[extra]` again, meets a release
  # that is newer than the lock, and refuses it because its hash is missing.
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-input --no-deps --require-hashes -r "$lock" >&2
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-input --no-deps --no-build-isolation -e . >&2
  printf '%s' "$want" > "$stamp"
}

# Install the real programs that the default run starts into .cache: 1.5 GB, with node if the system's is old.
install_real_programs() {
  say "Installing the real programs that tests start…"
  .venv/bin/python tests/support/npm_programs.py
}
