#!/usr/bin/env bash
# Sets up the environment of a task. Usage: scripts/setup.sh unit|run|docs|dev|interop
#   unit     Python environment with pytest, without the native core: enough for `make test-python T=tests/plan`
#   run      Python environment and build tools: enough for `make run`
#   docs     run + the builder of the documentation: enough for `make docs`
#   dev      run + linters, pytest and its clients, Node.js, Chromium, Java, Spark, systemd-analyze, mosquitto_pub, HAProxy: enough for `make test` and `make check`
#   interop  dev + JDK, Maven, Go, xfsprogs, strace and Prometheus: enough for `make check-all`
# Debian and Ubuntu packages are installed when this runs as root; otherwise one line names what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

level=${1:-run}
python=${PYTHON:-python3}
rust_minimum=1.90
go_minimum=1.25
node_minimum=22.12
packages=()
node=()

have() { command -v "$1" >/dev/null 2>&1; }
stop() { echo "setup: $*" >&2; exit 1; }
# at_least A B: version A is B or newer
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }
# need COMMAND PACKAGE...: asks for the packages when the command is not there
need() { local command=$1; shift; have "$command" || packages+=("$@"); }

install_packages() {
  [ ${#packages[@]} -gt 0 ] || return 0
  local line="apt-get install -y --no-install-recommends ${packages[*]}"
  have apt-get || stop "missing: ${packages[*]} (Debian names); install them with this system's package manager"
  [ "$(id -u)" = 0 ] || stop "missing: ${packages[*]}; run: sudo $line"
  echo "setup: $line"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && $line -qq >/dev/null || stop "could not install: ${packages[*]}"
}

system() {
  have "$python" || packages+=(python3 python3-venv)
  if have "$python" && ! "$python" -c 'import ensurepip' 2>/dev/null; then packages+=(python3-venv); fi
  [ "$level" = unit ] || need cc gcc libc6-dev
  if [ "$level" = dev ] || [ "$level" = interop ]; then
    # qpid-proton compiles C: OpenSSL for its TLS, Cyrus for its SCRAM.
    need g++ g++
    need pkg-config pkg-config
    need curl curl
    need node nodejs
    need npm npm
    # a foreign client of MQTT
    need mosquitto_pub mosquitto-clients
    # a real proxy before the listeners
    [ -x /usr/sbin/haproxy ] || need haproxy haproxy
    # drives the console; not the browser that Playwright would download
    need chromium chromium
    # Spark runs on it
    need java default-jre-headless
    # judges the unit of deploy/systemd
    need systemd-analyze systemd
    [ -e /usr/include/openssl/ssl.h ] || packages+=(libssl-dev)
    [ -e /usr/include/sasl/sasl.h ] || packages+=(libsasl2-dev)
    ls /usr/lib/*/sasl2/libscram.so >/dev/null 2>&1 || packages+=(libsasl2-modules)
    "$python" -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
      2>/dev/null || packages+=(python3-dev)
  fi
  if [ "$level" = interop ]; then
    need javac default-jdk-headless
    need mvn maven
    need xfs_io xfsprogs
    need strace strace
    need prometheus prometheus
  fi
  install_packages
}

toolchains() {
  local seen
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || stop "Python 3.11 or newer is needed, $python is $("$python" -V 2>&1); name another one: make PYTHON=python3.12 ..."
  [ "$level" != unit ] || return 0
  have cargo || stop "missing: Rust $rust_minimum or newer; install it with rustup (https://rustup.rs)"
  if ! seen=$(rustc --version 2>&1) || ! cargo --version >/dev/null 2>&1; then
    stop "cargo is there but no Rust toolchain; run: rustup default stable"
  fi
  seen=$(cut -d' ' -f2 <<<"$seen")
  at_least "$seen" "$rust_minimum" || stop "Rust $rust_minimum or newer is needed, this is $seen; run: rustup update stable"
  if [ "$level" = interop ]; then
    have go || stop "missing: Go $go_minimum or newer (https://go.dev/dl)"
    seen=$(go env GOVERSION | sed 's/^go//')
    at_least "$seen" "$go_minimum" || stop "Go $go_minimum or newer is needed, this is $seen (https://go.dev/dl)"
  fi
}

environment() {
  local uv=.venv/bin/uv
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  [ -x $uv ] || .venv/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.13,<0.14"
  local what=(-r pyproject.toml "maturin>=1.16,<2")
  # the console is built with it
  at_least "$(node --version 2>/dev/null | sed 's/^v//')" "$node_minimum" || node=(--extra node)
  # Spark gives a Python worker 10 s to start: the first one is not to compile what it imports
  case $level in
    # Nothing that compiles or runs a server; the core is not installed, so Python finds its sources by a path.
    unit) what=(-r pyproject.toml --extra unit) ;;
    docs) what+=(--extra docs) ;;
    run) what+=("${node[@]}") ;;
    dev | interop) what=(-r pyproject.toml --extra dev "${node[@]}" --compile-bytecode) ;;
  esac
  $uv pip install --quiet --python .venv/bin/python --constraint requirements.lock "${what[@]}"
  case $level in
    unit) echo "$PWD/python" >"$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/enmasse.pth" ;;
    dev | interop) proton_with_sasl ;;
  esac
}

# Proton compiles without an error where the headers of Cyrus SASL are missing, and then knows neither SCRAM nor
# PLAIN. The package cache keeps such a build, so it survives a new environment: rebuild it past the cache.
proton_with_sasl() {
  local extended='import proton, sys; sys.exit(not proton.SASL.extended())'
  .venv/bin/python -c "$extended" && return
  echo "setup: the cached qpid-proton was built without SASL; building it again"
  $uv pip install --quiet --python .venv/bin/python --constraint requirements.lock --no-cache \
    --no-binary python-qpid-proton --reinstall-package python-qpid-proton python-qpid-proton
  .venv/bin/python -c "$extended" || stop "qpid-proton has no SASL though libsasl2-dev is installed"
}

case $level in
  unit | run | docs | dev | interop) ;;
  *) stop "unknown level '$level': unit, run, docs, dev or interop" ;;
esac
system
toolchains
environment
