#!/bin/sh
# The index of docs/decisions names every page.
set -eu
cd "$(dirname "$0")/../docs/decisions"
failed=0
for page in *.md; do
    if [ "$page" != README.md ] && ! grep -qF "]($page)" README.md; then
        echo "docs/decisions/README.md: $page is missing; add a line for it" >&2
        failed=1
    fi
done
exit "$failed"
