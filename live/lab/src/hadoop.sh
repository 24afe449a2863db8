#!/bin/sh
# The commands of Hadoop that a lab needs, by Hadoop's names: hadoop, hdfs, yarn and mapred are all this one.
set -eu
engine=$(dirname "$(dirname "$(readlink -f "$0")")")
if [ $# = 0 ]; then
    echo "usage: $(basename "$0") jar|fs|dfs|dfsadmin|fsck|node|application|container|queue|job|version|CLASS …" >&2
    exit 2
fi
command=$1
shift
heap=256
case $command in
namenode) class=org.apache.hadoop.hdfs.server.namenode.NameNode ;;
resourcemanager) class=org.apache.hadoop.yarn.server.resourcemanager.ResourceManager ;;
datanode) class=org.apache.hadoop.hdfs.server.datanode.DataNode heap=128 ;;
nodemanager) class=org.apache.hadoop.yarn.server.nodemanager.NodeManager heap=192 ;;
jar)
    class=org.apache.hadoop.util.RunJar
    # "examples" stands for Hadoop's own.
    if [ "${1-}" = examples ]; then
        shift
        set -- "$engine"/lib/hadoop-mapreduce-examples-*.jar "$@"
    fi
    ;;
fs | dfs) class=org.apache.hadoop.fs.FsShell ;;
dfsadmin) class=org.apache.hadoop.hdfs.tools.DFSAdmin ;;
fsck) class=org.apache.hadoop.hdfs.tools.DFSck ;;
node) class=org.apache.hadoop.yarn.client.cli.NodeCLI ;;
queue) class=org.apache.hadoop.yarn.client.cli.QueueCLI ;;
app | application | applicationattempt | container)
    class=org.apache.hadoop.yarn.client.cli.ApplicationCLI
    set -- "$command" "$@"
    ;;
job) class=org.apache.hadoop.mapred.JobClient ;;
version) class=org.apache.hadoop.util.VersionInfo ;;
*) class=$command ;;
esac
export JAVA_HOME="$engine/java" HADOOP_CONF_DIR="$engine/etc"
# Classes of the JDK that Hadoop looks into.
exec "$JAVA_HOME/bin/java" "-Xmx${heap}m" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData \
    -Djava.io.tmpdir="$engine/tmp" -Djava.net.preferIPv4Stack=true \
    --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.lang.reflect=ALL-UNNAMED \
    -cp "$engine/etc:$engine/lib/*:$engine/plugin/*" "$class" "$@"
