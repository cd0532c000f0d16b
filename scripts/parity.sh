#!/bin/sh
# An environment beside .venv in which Spark's own Kafka connector and format("moldau") run in one session, to be compared
# and measured: .venv-parity with the newest PySpark whose connector Maven Central has, and the connector's jars. Not part
# of the default install: about 1 GB more. `make parity` runs the comparison, `make bench-spark` the measurements.
set -e
cd "$(dirname "$0")/.."
spark=${SPARK:-4.2.0}
venv=.venv-parity
if [ ! -e "$venv/.ready-$spark" ]; then
    python=$(sh scripts/doctor.sh)
    test -x $venv/bin/python || $python -m venv $venv
    echo "parity: installing PySpark $spark into $venv (about 1 GB)"
    grep -v '^pyspark==' constraints.txt >$venv/constraints.txt
    $venv/bin/python -m pip install -q -c $venv/constraints.txt "pyspark==$spark" pyarrow numpy 'pandas<3' confluent-kafka \
        deltalake crc32c lz4 zstandard cramjam click rich kazoo
    touch "$venv/.ready-$spark"
fi
jars=.jars/spark-kafka-$spark
if [ ! -e "$jars/.complete" ]; then
    command -v mvn >/dev/null 2>&1 || { echo "parity: Maven is missing. Install it with: apt-get install maven" >&2; exit 1; }
    echo "parity: fetching Spark's Kafka connector $spark through Maven (about 20 MB)"
    mvn -q -B -f bench/jars/spark-kafka.xml -Dspark.version="$spark" dependency:copy-dependencies -DoutputDirectory="$PWD/$jars"
    touch "$jars/.complete"
fi
