#!/bin/sh
# The commands of Storm that a lab needs, by Storm's names.
set -eu
engine=$(dirname "$(dirname "$(readlink -f "$0")")")
usage() {
    echo "usage: storm jar FILE CLASS …|list|kill NAME|activate NAME|deactivate NAME|rebalance NAME|CLASS …" >&2
    exit 2
}
[ $# != 0 ] || usage
command=$1
shift
heap=128 level=warn path="$engine/lib/*" own="$engine/data/$WATERMASTER_HOST"
# A client's jar is what the topology consists of.
jar=
case $command in
zookeeper)
    class=org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServerMain level=info
    set -- 2181 "$engine/data/zookeeper"
    ;;
nimbus) class=org.apache.storm.daemon.nimbus.Nimbus heap=256 level=info ;;
supervisor) class=org.apache.storm.daemon.supervisor.Supervisor level=info ;;
jar)
    [ $# -ge 2 ] || usage
    jar=$1 class=$2
    shift 2
    # "examples" stands for Watermaster's own.
    [ "$jar" != examples ] || jar=$(echo "$engine"/examples/*.jar)
    [ -f "$jar" ] || {
        echo "storm: $jar: there is no such file; name a jar, or examples" >&2
        exit 2
    }
    path=$path:$jar
    ;;
list) class=org.apache.storm.command.ListTopologies ;;
kill) class=org.apache.storm.command.KillTopology ;;
activate) class=org.apache.storm.command.Activate ;;
deactivate) class=org.apache.storm.command.Deactivate ;;
rebalance) class=org.apache.storm.command.Rebalance ;;
*) class=$command ;;
esac
export JAVA_HOME="$engine/java"
# ZooKeeper has no page for browsers here, and tells who is there.
exec "$JAVA_HOME/bin/java" "-Xmx${heap}m" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData \
    -Djava.io.tmpdir="$engine/tmp" -Djava.net.preferIPv4Stack=true \
    -Dlog4j.configurationFile="$engine/log4j2/cluster.xml" -Dlab.level=$level \
    -Dzookeeper.admin.enableServer=false -Dzookeeper.4lw.commands.whitelist=dump \
    -Dstorm.home="$engine" -Dstorm.jar="$jar" \
    "-Dstorm.options=storm.local.dir=$own,storm.workers.artifacts.dir=$engine/logs/$WATERMASTER_HOST-workers" \
    -cp "$engine/conf:$path:$engine/plugin/*" "$class" "$@"
