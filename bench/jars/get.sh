#!/bin/sh
# Apache Kafka 4.3.1's jars into .jars/, through Maven: for the peer in tests and measurements, and for the Java clients.
set -e
cd "$(dirname "$0")"
target=../../.jars/kafka-4.3.1
if [ -e "$target/.complete" ]; then exit 0; fi
command -v mvn >/dev/null 2>&1 || { echo "jars: Maven is missing. Install it with: apt-get install maven" >&2; exit 1; }
echo "jars: fetching Apache Kafka 4.3.1 through Maven (about 150 MB)"
mvn -q -B dependency:copy-dependencies -DoutputDirectory="$(cd ../.. && pwd)/.jars/kafka-4.3.1"
touch "$target/.complete"
