# Writes the configuration of this node's agent: configure.sh GIVEN OUT. GIVEN/agent.toml has what all agents share,
# GIVEN/node-NAME.toml the hosts and interfaces of a node that differs; certificates are in $CERTIFICATES.
set -eu
copy() { # there is no cat
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s\n' "$line"
    done <"$1"
}
{
    printf 'name = "%s"\n' "$NODE_NAME"
    copy "$1/agent.toml"
    printf '\n[tls]\nca = "%s/ca.crt"\n' "$CERTIFICATES"
    printf 'certificate = "%s/agent-%s.crt"\nkey = "%s/agent-%s.key"\n\n' \
        "$CERTIFICATES" "$NODE_NAME" "$CERTIFICATES" "$NODE_NAME"
    if [ -e "$1/node-$NODE_NAME.toml" ]; then
        copy "$1/node-$NODE_NAME.toml"
    else
        printf '[[host]]\nname = "%s"\naddresses = ["%s"]\n' "$NODE_NAME" "$NODE_ADDRESS"
    fi
} >"$2"
