#!/bin/sh
# The commands of Spark that a lab needs, by Spark's names: spark-submit and spark-class.
set -eu
engine=$(dirname "$(dirname "$(readlink -f "$0")")")
heap=512 level=warn
if [ "$(basename "$0")" = spark-submit ]; then
    class=org.apache.spark.deploy.SparkSubmit
    # "examples" in the place of a jar stands for Watermaster's own.
    for argument in "$@"; do
        shift
        case $argument in
        examples) set -- "$@" "$engine"/examples/*.jar ;;
        *) set -- "$@" "$argument" ;;
        esac
    done
else
    [ $# != 0 ] || {
        echo "usage: spark-class master|worker|CLASS …" >&2
        exit 2
    }
    class=$1
    shift
fi
case $class in
master)
    class=org.apache.spark.deploy.master.Master heap=192 level=info
    set -- --host "$WATERMASTER_HOST" --port 7077 --webui-port 8080
    ;;
worker)
    class=org.apache.spark.deploy.worker.Worker heap=128 level=info
    set -- --host "$WATERMASTER_HOST" --webui-port 8081 --cores 4 --memory 2g \
        --work-dir "$engine/logs/$WATERMASTER_HOST-executors" \
        "$(sed -n 's/^spark.master *//p' "$engine/conf/spark-defaults.conf")"
    ;;
esac
export JAVA_HOME="$engine/java" SPARK_HOME="$engine" SPARK_CONF_DIR="$engine/conf" SPARK_SCALA_VERSION=2.13 \
    SPARK_LOCAL_HOSTNAME="$WATERMASTER_HOST" SPARK_LOCAL_DIRS="$engine/data/$WATERMASTER_HOST"
# Classes of the JDK that Spark looks into; executors get theirs from it.
opens=
for package in java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent \
    java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar; do
    opens="$opens --add-opens=java.base/$package=ALL-UNNAMED"
done
# shellcheck disable=SC2086
exec "$JAVA_HOME/bin/java" "-Xmx${heap}m" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData \
    -Djava.io.tmpdir="$engine/tmp" -Djava.net.preferIPv4Stack=true -Dlab.level=$level $opens \
    -cp "$engine/conf:$engine/jars/*:$engine/plugin/*" "$class" "$@"
