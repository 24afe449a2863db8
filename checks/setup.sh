#!/bin/sh
# Installs the Debian packages that a make target needs and this machine lacks. Without root it names them
# in one line and fails, before anything is compiled. Usage: checks/setup.sh NEED…
set -eu

missing=
lacks() { # PACKAGES
    missing="$missing $*"
}
has() { # COMMAND
    # System commands stand where a user's PATH may not lead.
    PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null
}

for need in "$@"; do
    case $need in
    build) # C and assembly are compiled (libbpf, ring), libelf and zlib are linked with
        if ! has cargo; then
            echo "setup: there is no cargo; install Rust by rustup (https://rustup.rs)" >&2
            exit 1
        fi
        has cc || lacks gcc libc6-dev
        has pkg-config || lacks pkg-config
        pkg-config --exists libelf 2>/dev/null || lacks libelf-dev
        pkg-config --exists zlib 2>/dev/null || lacks zlib1g-dev
        ;;
    lab) # namespaces, links and switches
        has ip || lacks iproute2
        has ethtool || lacks ethtool
        has ovs-vswitchd || lacks openvswitch-switch
        ;;
    python) has python3 || lacks python3 ;;
    venv) python3 -c 'import ensurepip' 2>/dev/null || lacks python3-venv ;;
    tshark) has tshark || lacks tshark ;;
    faketime) has faketime || lacks faketime ;;
    bpf) # one version, because objects are compared by octets
        has clang-19 || lacks clang-19
        has llvm-strip-19 || lacks llvm-19
        [ -e /usr/include/bpf/bpf_helpers.h ] || lacks libbpf-dev
        ;;
    java) # a compiler, not only a runtime
        has javac || lacks default-jdk-headless
        has mvn || lacks maven
        ;;
    deb) # packages, and what looks at them
        has dpkg-deb || lacks dpkg
        has dpkg-shlibdeps || lacks dpkg-dev
        has lintian || lacks lintian
        ;;
    roots) has debootstrap || lacks debootstrap ;;
    images) # packages to take programs from, and what reads images
        has dpkg-deb || lacks dpkg
        has umoci || lacks umoci
        has ip || lacks iproute2
        ;;
    gpg) # signs, and verifies
        has gpg || lacks gnupg
        has gpgv || lacks gpgv
        ;;
    etcd) has etcd || lacks etcd-server ;;
    memcached) has memcached || lacks memcached ;;
    go) has go || lacks golang-go ;;
    twemproxy) has nutcracker || lacks nutcracker ;;
    node) # 20 or later
        has node || lacks nodejs
        has npm || lacks npm
        ;;
    chromium) has chromium || has chromium-browser || has google-chrome || lacks chromium ;;
    valgrind) has valgrind || lacks valgrind ;;
    fuzz)
        if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
            echo "setup: run: rustup toolchain install nightly && cargo install --locked cargo-fuzz" >&2
            exit 1
        fi
        ;;
    *)
        echo "setup: there is no need $need" >&2
        exit 2
        ;;
    esac
done
[ -n "$missing" ] || exit 0
if ! has apt-get; then
    echo "setup: install what Debian calls$missing" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "setup: something is missing; run: sudo apt-get install --yes$missing" >&2
    exit 1
fi
echo "setup: installing$missing"
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends $missing >/dev/null
