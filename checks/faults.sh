#!/bin/sh
# Hurts the daemons and Open vSwitch in labs and prints what traffic suffered.
set -eu
cd "$(dirname "$0")/.."
rows=target/tmp/faults
rm -rf "$rows"
cargo test --profile quick --locked --package watermaster --test faults --no-run
faults() {
    checks/matched.sh cargo test --quiet --profile quick --locked --package watermaster --test faults -- \
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
