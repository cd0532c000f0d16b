#!/bin/sh
# Apache Kafka's jars into .jars/, through Maven: 4.3.1 for the peer in tests and measurements and for the Java clients,
# the command line tools alone of 2.8.2 (--zookeeper) and 3.9.1 for the tests of ZooKeeper mode, 3.9.2 for clusters
# of its brokers and ours on one ZooKeeper.
set -e
cd "$(dirname "$0")"

fetch() { # folder, list of jars, size
    target=../../.jars/$1
    if [ -e "$target/.complete" ]; then return; fi
    command -v mvn >/dev/null 2>&1 || { echo "jars: Maven is missing. Install it with: apt-get install maven" >&2; exit 1; }
    echo "jars: fetching Apache's $1 through Maven (about $3 MB)"
    mvn -q -B -f "$2" dependency:copy-dependencies -DoutputDirectory="$(cd ../.. && pwd)/.jars/$1"
    touch "$target/.complete"
}

if [ "$1" = ecosystem ]; then # of Connect, MirrorMaker 2 and Streams: for `make ecosystem` alone
    fetch ecosystem-4.3.1 ecosystem.xml 105
    exit
fi
if [ "$1" = stores ]; then # a catalog server, an HDFS and a YARN for the tests of Spark: for `make test-stores` alone
    fetch iceberg-1.10.0 iceberg-rest.xml 32
    fetch hdfs-3.5.0 hdfs.xml 56
    fetch yarn-3.5.0 yarn.xml 11
    exit
fi
fetch kafka-4.3.1 pom.xml 150
fetch tools-2.8.2 tools-2.8.2.xml 25
fetch tools-3.9.1 tools-3.9.1.xml 30
fetch kafka-3.9.2 kafka-3.9.2.xml 46

# What Java makes of the classes of one tool, kept for the next start of any of the same folder: a start costs half the
# time then. Java leaves it aside when it does not fit, and a Java that cannot make it does without.
keep() { # folder, a tool that ends by itself, its arguments
    kept=$(cd ../../.jars && pwd)/$1
    shift
    if [ -e "$kept.jsa" ] || ! command -v java >/dev/null 2>&1; then return 0; fi
    java -XX:ArchiveClassesAtExit="$kept.jsa" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$kept/*" "$@" \
        >/dev/null 2>&1 || true
}
keep kafka-4.3.1 org.apache.kafka.tools.BrokerApiVersionsCommand --bootstrap-server 127.0.0.1:1
keep tools-2.8.2 kafka.tools.StateChangeLogMerger --logs get.sh
