# shellcheck shell=bash
# What a checkout needs from the machine; sourced by ./quickstart and ./check.
# Installs what is missing where it may, and otherwise says exactly what is missing and how to get it.

setup_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

setup_say() { printf '%s\n' "$*" >&2; }

# The oldest Rust that builds Weft, from the workspace itself.
setup_rust_wanted() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$setup_root/Cargo.toml" | head -n 1; }

# setup_packages PACKAGE...: installs Debian packages, or says how.
setup_packages() {
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            sudo=(sudo -n)
        else
            setup_say "missing: the packages $*. Install them with"
            setup_say "    sudo apt-get install -y $*"
            setup_say "and run this again."
            return 1
        fi
    fi
    if ! command -v apt-get >/dev/null; then
        setup_say "missing: a C compiler and linker (Debian's packages $*), and there is no apt-get here."
        setup_say "Install them with your system's package manager and run this again."
        return 1
    fi
    setup_say "installing $* ..."
    if ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null ||
        ! "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null; then
        setup_say "apt-get could not install $*; see above, install them and run this again."
        return 1
    fi
}

# Whether the cargo on PATH is new enough.
setup_rust_fits() {
    command -v cargo >/dev/null && command -v rustc >/dev/null || return 1
    local have wanted
    have=$(rustc --version 2>/dev/null | cut -d' ' -f2)
    wanted=$(setup_rust_wanted)
    [ "$(printf '%s\n%s\n' "$wanted" "${have%%-*}" | sort -V | head -n 1)" = "$wanted" ]
}

setup_rust() {
    # shellcheck disable=SC1091
    [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
    setup_rust_fits && return 0
    local wanted
    wanted=$(setup_rust_wanted)
    if command -v rustup >/dev/null; then
        setup_say "installing Rust $wanted with rustup ..."
        rustup toolchain install stable --profile minimal >&2 && rustup default stable >&2
    else
        command -v curl >/dev/null || setup_packages curl ca-certificates || return 1
        setup_say "installing Rust with its official installer ..."
        curl --proto '=https' --tlsv1.2 -fsS --retry 3 https://sh.rustup.rs |
            sh -s -- -y --profile minimal --default-toolchain stable >&2
    fi
    # shellcheck disable=SC1091
    [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
    if ! setup_rust_fits; then
        setup_say "missing: Rust $wanted or newer, and it could not be installed from here."
        setup_say "Get it from https://rustup.rs (or your system's packages, if they are new enough) and run this again."
        return 1
    fi
}

# Everything a build needs.
setup_build() {
    command -v cc >/dev/null || setup_packages gcc libc6-dev || return 1
    setup_rust
}

# What a mount needs: the kernel's FUSE, and who is not root a helper that may mount for them.
setup_mount() {
    if [ ! -e /dev/fuse ]; then
        setup_say "missing: /dev/fuse, the kernel's door for file systems like this one. Try: sudo modprobe fuse"
        return 1
    fi
    [ "$(id -u)" -eq 0 ] || command -v fusermount3 >/dev/null || setup_packages fuse3
}

# Programs that the tests of the mount run.
setup_mount_programs() {
    command -v getfattr >/dev/null || setup_packages attr
}

# Compilers for the tests of the C interface.
setup_c() {
    command -v cc >/dev/null && command -v c++ >/dev/null && command -v nm >/dev/null && return 0
    setup_packages gcc g++ binutils libc6-dev
}

# A Python of its own, in target/, with what the tests of the Python package need; its path is in WEFT_PYTHON.
setup_python() {
    local folder=$setup_root/target/python
    command -v python3 >/dev/null || setup_packages python3 python3-venv || return 1
    if ! "$folder/bin/python" -m pytest --version >/dev/null 2>&1; then
        python3 -m venv "$folder" >/dev/null 2>&1 || { setup_packages python3-venv && python3 -m venv "$folder"; } || return 1
    fi
    "$folder/bin/python" -m pip install -q --disable-pip-version-check -r "$setup_root/crates/weft-python/tests/requirements.txt" >&2 || {
        setup_say "missing: what the tests of the Python package need (crates/weft-python/tests/requirements.txt), and pip could not install it."
        return 1
    }
    export WEFT_PYTHON=$folder/bin/python
    setup_torch "$folder"
}

# PyTorch, of some gigabytes. Where it cannot be installed, the tests with it are skipped.
setup_torch() {
    "$1/bin/python" -c 'import torch' 2>/dev/null && return 0
    setup_say "installing PyTorch for tests of the Python package ..."
    "$1/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir torch >&2 ||
        setup_say "tests with PyTorch will be skipped"
}

# MPI libraries for the tests of MPI-IO. Where they cannot be installed, those tests say which they skip.
setup_mpi() {
    command -v mpicc.mpich >/dev/null && command -v mpicc.openmpi >/dev/null && command -v mpifort.mpich >/dev/null && return 0
    setup_packages mpich libmpich-dev openmpi-bin libopenmpi-dev gfortran || setup_say "tests with MPI will be skipped"
}

# A server and a client of NFS. Where they cannot be installed, their test says that it is skipped.
setup_nfs() {
    command -v ganesha.nfsd >/dev/null && command -v rpcbind >/dev/null && [ -e /usr/include/nfsc/libnfs.h ] && return 0
    setup_packages nfs-ganesha nfs-ganesha-vfs rpcbind libnfs-dev || setup_say "the test with NFS will be skipped"
}

# What the lints need besides.
setup_lints() {
    command -v python3 >/dev/null || setup_packages python3 || return 1
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return 0
    if command -v rustup >/dev/null; then
        rustup component add rustfmt clippy >&2 && return 0
    fi
    setup_say "missing: rustfmt and clippy. Get them with: rustup component add rustfmt clippy"
    return 1
}
