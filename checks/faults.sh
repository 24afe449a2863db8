#!/bin/sh
# Hurts the daemons and Open vSwitch in labs and prints what traffic suffered. Installs Open vSwitch,
# ethtool and libfaketime where they are missing (Debian or Ubuntu, root).
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
    ! { command -v ovs-vswitchd && command -v ethtool && command -v faketime; } >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openvswitch-switch ethtool faketime
fi
rows=target/tmp/faults
rm -rf "$rows"
cargo test --profile quick --locked --package watermaster --test faults --no-run
faults() {
    cargo test --quiet --profile quick --locked --package watermaster --test faults -- \
        --include-ignored --test-threads 1 "$@"
}
# Half messages take a minute to be cut off, and next to no processor.
faults halves >target/faults-halves.log 2>&1 &
halves=$!
status=0
faults --skip halves || status=$?
wait "$halves" || status=$?
cat target/faults-halves.log
echo
echo "| fault | datagrams lost | longest outage | longest gap of a stream | sent again | dropped at full queues | seen |"
echo "|---|---|---|---|---|---|---|"
cat "$rows"/*.row 2>/dev/null || echo "(nothing was measured: see above)"
exit "$status"
