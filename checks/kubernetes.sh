#!/bin/sh
# Controllers that agree by a Lease, before a real API server of Kubernetes (live/controller/tests/apiserver.rs). It is
# built below target/kubernetes by Go's module proxy, once, which takes minutes and some 2 GB of memory.
# KUBERNETES=VERSION takes another.
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/target/kubernetes
version=${KUBERNETES:-1.34.0}
if [ "$(cat "$tools/version" 2>/dev/null)" != "$version" ]; then
    minor=$(go version | sed -n 's/.* go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge 24 ] || {
        echo "kubernetes: this is $(go version); install Go 1.24 or later" >&2
        exit 1
    }
    build=$tools/build
    rm -rf "$build"
    mkdir -p "$build"
    found=$(cd "$tools" && go mod download -json "k8s.io/kubernetes@v$version") || {
        echo "kubernetes: $found" >&2
        exit 1
    }
    given=$(echo "$found" | sed -n 's/^[[:space:]]*"GoMod": "\(.*\)",\{0,1\}$/\1/p')
    # A part of its modules it takes from its own folder staging, as v0.0.0. A module holds no other module, so they are
    # not in it; published they are v0.… of the same release.
    {
        echo "module kubernetes"
        grep '^go ' "$given"
        echo "require k8s.io/kubernetes v$version"
        sed -n "s|^[[:space:]]*\(k8s\.io/[^ ]*\) v0\.0\.0\( .*\)\{0,1\}$|replace \1 => \1 v0.${version#1.}|p" "$given"
    } >"$build/go.mod"
    grep -q '^replace k8s.io/api ' "$build/go.mod" || {
        echo "kubernetes: $given names no module of its folder staging; what it does there must be looked up" >&2
        exit 1
    }
    echo "kubernetes: building kube-apiserver $version"
    (cd "$build" && CGO_ENABLED=0 GOFLAGS=-mod=mod go build -trimpath -o "$tools/kube-apiserver" \
        -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$version" k8s.io/kubernetes/cmd/kube-apiserver)
    echo "$version" >"$tools/version"
fi
KUBE_APISERVER=$tools/kube-apiserver CONFORMANCE=1 checks/matched.sh cargo test --locked \
    --package watermaster-controller --test apiserver -- \
    --exact another_leads_by_a_real_lease_when_the_leader_is_killed --ignored --nocapture
echo "kubernetes: well"
