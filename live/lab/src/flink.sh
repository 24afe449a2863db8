#!/bin/sh
# The commands of Flink that a lab needs, by Flink's names.
set -eu
engine=$(dirname "$(dirname "$(readlink -f "$0")")")
usage() {
    echo "usage: flink run [-d] [-c CLASS] FILE …|list|cancel JOB|stop JOB|info FILE|savepoint JOB" >&2
    exit 2
}
[ $# != 0 ] || usage
command=$1 heap=128 level=warn more=
case $command in
jobmanager)
    class=org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint heap=256 level=info
    set -- --configDir "$engine/conf"
    ;;
taskmanager)
    class=org.apache.flink.runtime.taskexecutor.TaskManagerRunner heap=256 level=info
    # What it has for networks and frameworks outside of the heap.
    more=-XX:MaxDirectMemorySize=128m
    # A host's name is something that tasks can ask for: its TaskManagers have one of it each.
    set -- --configDir "$engine/conf" -D "taskmanager.host=$WATERMASTER_HOST" -D "taskmanager.data.port=$2" \
        -D "taskmanager.resource-id=$WATERMASTER_HOST:$2" \
        -D "external-resources=$WATERMASTER_HOST" -D "external-resource.$WATERMASTER_HOST.amount=1"
    ;;
run | list | cancel | stop | info | savepoint)
    class=org.apache.flink.client.cli.CliFrontend
    # "examples" stands for Watermaster's own.
    for argument; do
        shift
        [ "$argument" != examples ] || argument=$(echo "$engine"/examples/*.jar)
        set -- "$@" "$argument"
    done
    ;;
*) usage ;;
esac
# There are no plug-ins of Flink's own kind; it would look for them where it is started.
export JAVA_HOME="$engine/java" FLINK_CONF_DIR="$engine/conf" FLINK_PLUGINS_DIR="$engine/conf"
# Classes of the JDK that Flink looks into.
for package in java.lang java.lang.reflect java.io java.net java.nio java.text java.time java.util \
    java.util.concurrent java.util.concurrent.atomic java.util.concurrent.locks sun.nio.ch; do
    more="$more --add-opens=java.base/$package=ALL-UNNAMED"
done
# shellcheck disable=SC2086
exec "$JAVA_HOME/bin/java" "-Xmx${heap}m" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData $more \
    -Djava.io.tmpdir="$engine/tmp" -Djava.net.preferIPv4Stack=true \
    -Dlog4j.configurationFile="$engine/conf/log4j.properties" -Dlab.level=$level \
    -cp "$engine/lib/*:$engine/plugin/*" "$class" "$@"
