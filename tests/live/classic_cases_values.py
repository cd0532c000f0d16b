"""More command lines for Kafka's tools and Moldau's: values that are empty, extreme or odd, and files of clients.

How they are run: test_classic_values.py.
"""

# ruff: noqa: E501  # a case is a line

from __future__ import annotations

FILES = """
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {lower}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {mixed}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {controllers}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {of_others}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {escape}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {nothing}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {interceptor}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {partitioner}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {serializer}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {login}
kafka-topics.sh --bootstrap-server {b} --list --topic foo-1 --command-config {listed}
kafka-cluster.sh cluster-id -b {b} -c {controllers}
kafka-cluster.sh cluster-id -C {c} -c {controllers}
kafka-features.sh --bootstrap-server {b} --command-config {controllers} describe
kafka-features.sh --bootstrap-controller {c} --command-config {controllers} describe
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {controllers} describe --status
kafka-metadata-quorum.sh --bootstrap-controller {c} --command-config {controllers} describe --status
kafka-configs.sh --bootstrap-server {b} --command-config {controllers} --describe --entity-type topics --entity-name filled
kafka-configs.sh --bootstrap-controller {c} --command-config {controllers} --describe --entity-type topics --entity-name filled
kafka-log-dirs.sh --bootstrap-server {b} --command-config {controllers} --describe --topic-list nosuch
kafka-get-offsets.sh --bootstrap-server {b} --command-config {controllers} --topic filled
kafka-leader-election.sh --bootstrap-server {b} --command-config {controllers} --topic filled --partition 0 --election-type preferred
kafka-delete-records.sh --bootstrap-server {b} --command-config {controllers} --offset-json-file {json}/none.json
kafka-reassign-partitions.sh --bootstrap-server {b} --command-config {controllers} --list
kafka-reassign-partitions.sh --bootstrap-controller {c} --command-config {controllers} --list
kafka-cluster.sh cluster-id -b {b} -c {both_places}
kafka-cluster.sh cluster-id -C {c} -c {both_places}
kafka-features.sh --bootstrap-server {b} --command-config {both_places} describe
kafka-features.sh --bootstrap-controller {c} --command-config {both_places} describe
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {both_places} describe --status
kafka-metadata-quorum.sh --bootstrap-controller {c} --command-config {both_places} describe --status
kafka-configs.sh --bootstrap-server {b} --command-config {both_places} --describe --entity-type topics --entity-name filled
kafka-configs.sh --bootstrap-controller {c} --command-config {both_places} --describe --entity-type topics --entity-name filled
kafka-log-dirs.sh --bootstrap-server {b} --command-config {both_places} --describe --topic-list nosuch
kafka-get-offsets.sh --bootstrap-server {b} --command-config {both_places} --topic filled
kafka-leader-election.sh --bootstrap-server {b} --command-config {both_places} --topic filled --partition 0 --election-type preferred
kafka-delete-records.sh --bootstrap-server {b} --command-config {both_places} --offset-json-file {json}/none.json
kafka-reassign-partitions.sh --bootstrap-server {b} --command-config {both_places} --list
kafka-reassign-partitions.sh --bootstrap-controller {c} --command-config {both_places} --list
kafka-cluster.sh cluster-id -b {b} -c {servers}
kafka-cluster.sh cluster-id -C {c} -c {servers}
kafka-features.sh --bootstrap-server {b} --command-config {servers} describe
kafka-features.sh --bootstrap-controller {c} --command-config {servers} describe
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {servers} describe --status
kafka-metadata-quorum.sh --bootstrap-controller {c} --command-config {servers} describe --status
kafka-configs.sh --bootstrap-server {b} --command-config {servers} --describe --entity-type topics --entity-name filled
kafka-configs.sh --bootstrap-controller {c} --command-config {servers} --describe --entity-type topics --entity-name filled
kafka-log-dirs.sh --bootstrap-server {b} --command-config {servers} --describe --topic-list nosuch
kafka-get-offsets.sh --bootstrap-server {b} --command-config {servers} --topic filled
kafka-leader-election.sh --bootstrap-server {b} --command-config {servers} --topic filled --partition 0 --election-type preferred
kafka-delete-records.sh --bootstrap-server {b} --command-config {servers} --offset-json-file {json}/none.json
kafka-reassign-partitions.sh --bootstrap-server {b} --command-config {servers} --list
kafka-reassign-partitions.sh --bootstrap-controller {c} --command-config {servers} --list
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {time}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {recording}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {reporter}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {controllers}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {lower}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {dns}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {login}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {factor}
kafka-console-producer.sh --bootstrap-server {b} --topic filled --command-config {interceptor}
kafka-console-consumer.sh --bootstrap-server {b} --topic nosuch --timeout-ms 1000 --command-config {interceptor}
kafka-console-producer.sh --bootstrap-server {b} --topic filled --command-config {partitioner}
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic filled --num-records 1 --command-config {interceptor} --timeout 1000 --hide-header
kafka-console-producer.sh --bootstrap-server {b} --topic filled --command-config {reporter}
kafka-console-consumer.sh --bootstrap-server {b} --topic nosuch --timeout-ms 1000 --command-config {reporter}
kafka-console-producer.sh --bootstrap-server {b} --topic filled --command-config {login}
kafka-console-consumer.sh --bootstrap-server {b} --topic nosuch --timeout-ms 1000 --command-config {login}
kafka-console-producer.sh --bootstrap-server {b} --topic filled --command-config {listed}
kafka-console-consumer.sh --bootstrap-server {b} --topic nosuch --timeout-ms 1000 --command-config {listed}
kafka-verifiable-producer.sh --bootstrap-server {b} --topic filled --max-messages 1 --command-config {interceptor}
kafka-producer-perf-test.sh --bootstrap-server {b} --topic filled --num-records 1 --record-size 1 --throughput -1 --command-config {interceptor}
kafka-verifiable-producer.sh --bootstrap-server {b} --topic filled --max-messages 1 --command-config {partitioner}
kafka-producer-perf-test.sh --bootstrap-server {b} --topic filled --num-records 1 --record-size 1 --throughput -1 --command-config {partitioner}
kafka-verifiable-producer.sh --bootstrap-server {b} --topic filled --max-messages 1 --command-config {reporter}
kafka-producer-perf-test.sh --bootstrap-server {b} --topic filled --num-records 1 --record-size 1 --throughput -1 --command-config {reporter}
"""

ELECTIONS = r"""
kafka-leader-election.sh --bootstrap-server {b} --admin.config {fast} --command-config {fast} --topic filled --partition 0 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --admin.config '' --topic filled --partition 0 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --admin.config /nowhere --topic filled --partition 0 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --admin.config {fast} --admin.config {fast} --topic filled --partition 0 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --command-config {fast} --command-config {fast} --topic filled --partition 0 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --command-config '' --topic filled --partition 0 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --admin.config {fast} --topic filled --partition 0 --election-type x
kafka-leader-election.sh --bootstrap-server {b} --admin.config {fast} --path-to-json-file /nowhere --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --admin.config {fast} --path-to-json-file '' --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --admin.config {fast} --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --topic '' --partition 0 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --topic filled --partition -1 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --topic filled --partition 99999999999 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --topic filled --partition '' --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --topic filled --partition 2147483648 --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --topic filled --partition 0 --election-type ''
kafka-leader-election.sh --bootstrap-server {b} --topic filled --partition 0 --election-type Unclean --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --admin.config {fast} --command-config {fast} --path-to-json-file /nowhere --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --admin.config {fast} --command-config {fast} --election-type preferred
kafka-leader-election.sh --admin.config {fast} --command-config {fast} --election-type preferred
kafka-leader-election.sh --admin.config {fast} --command-config {fast} --election-type preferred --topic a --all-topic-partitions --bootstrap-server {b}
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/odd-dempty.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/odd-dneg.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/odd-dbig.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/odd-dfloat.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/odd-dnull.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/odd-dver.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/odd-nulls.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/odd-nullsp.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/none.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}
"""

PRODUCED = r"""
kafka-console-producer.sh --bootstrap-server {b} --topic filled --max-partition-memory-bytes 100 --batch-size 5
kafka-console-producer.sh --bootstrap-server {b} --topic filled --max-partition-memory-bytes x
kafka-console-producer.sh --bootstrap-server {b} --topic filled --max-partition-memory-bytes 100 --producer.config {fast}
kafka-console-producer.sh --bootstrap-server {b} --topic filled --max-partition-memory-bytes 100 --command-config /nowhere
"""

TOPICS = r"""
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --partitions 2147483648
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --partitions ''
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --partitions -1
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --replication-factor -1
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --replication-factor 40000
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --replica-assignment ''
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --replica-assignment ','
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --replica-assignment ':'
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --replica-assignment 1:2147483648
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --replica-assignment 1:-1
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --config ''
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --config =
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --config a=b=c
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --config retention.ms=
kafka-topics.sh --bootstrap-server {b} --create --topic {s}-x --config =5
kafka-topics.sh --bootstrap-server {b} --describe --topic foo-1 --partition-size-limit-per-response 0
kafka-topics.sh --bootstrap-server {b} --describe --topic foo-1 --partition-size-limit-per-response -1
kafka-topics.sh --bootstrap-server {b} --describe --topic filled --partition-size-limit-per-response 2147483648
kafka-topics.sh --bootstrap-server {b} --describe --topic filled --partition-size-limit-per-response x
kafka-topics.sh --bootstrap-server {b} --alter --topic foo-1 --partitions 0
kafka-topics.sh --bootstrap-server {b} --alter --topic foo-1 --partitions -1
kafka-topics.sh --bootstrap-server {b} --alter --topic foo-1 --partitions 2147483647
kafka-topics.sh --bootstrap-server {b} --delete --topic 'neverwas.*'
kafka-topics.sh --bootstrap-server {b} --list -- --topic foo-1
kafka-topics.sh --bootstrap-server {b} --topic= --list
kafka-topics.sh --bootstrap-server {b} --topic '' --list
kafka-topics.sh --bootstrap-server {b} --topic '' --describe
kafka-topics.sh --bootstrap-server {b} --topic '' --delete
kafka-topics.sh --bootstrap-server {b} --topic '' --alter --partitions 2
kafka-topics.sh --bootstrap-server {b} --describe --topic-id ''
kafka-topics.sh --bootstrap-server {b} --describe --topic-id '' --topic foo-1
kafka-topics.sh --bootstrap-server {b} --describe --topic-id=
kafka-topics.sh --bootstrap-server {b} --list --command-config ''
kafka-topics.sh --bootstrap-server '' --list
kafka-topics.sh --bootstrap-server {b} --list --topic '[a-z&&[^f]]*.x'
kafka-topics.sh --bootstrap-server {b} --list --topic '\Qfoo-1\E'
kafka-topics.sh --bootstrap-server {b} --list --topic '\Qfoo-1'
kafka-topics.sh --bootstrap-server {b} --list --topic '(?<x>foo-1)'
kafka-topics.sh --bootstrap-server {b} --list --topic 'f{{2|1}}'
kafka-topics.sh --bootstrap-server {b} --list --topic '\p{{Alpha}}+-1'
kafka-topics.sh --bootstrap-server {b} --list --topic '\p{{Lower}}+-1'
kafka-topics.sh --bootstrap-server {b} --list --topic '\p{{L}}+-1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'fo{{1,'
kafka-topics.sh --bootstrap-server {b} --list --topic 'fo{{2}}-1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'fo{{-1'
kafka-topics.sh --bootstrap-server {b} --list --topic '[foo'
kafka-topics.sh --bootstrap-server {b} --list --topic '[]foo'
kafka-topics.sh --bootstrap-server {b} --list --topic '*'
kafka-topics.sh --bootstrap-server {b} --list --topic '+'
kafka-topics.sh --bootstrap-server {b} --list --topic 'fo++-1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'f.*+'
kafka-topics.sh --bootstrap-server {b} --list --topic '(?i)FOO-1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo(?i)-1'
kafka-topics.sh --bootstrap-server {b} --list --topic '(?P<x>foo).*'
kafka-topics.sh --bootstrap-server {b} --list --topic '(?>fo*).*'
kafka-topics.sh --bootstrap-server {b} --list --topic '(f)(o)\2-1'
kafka-topics.sh --bootstrap-server {b} --list --topic '(f)\3.*'
kafka-topics.sh --bootstrap-server {b} --list --topic '\zfoo'
kafka-topics.sh --bootstrap-server {b} --list --topic '\yfoo'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo-1\z'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo-1\Z'
kafka-topics.sh --bootstrap-server {b} --list --topic '\Afoo-1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo\x2d1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo\u002d1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo\h*-1'
kafka-topics.sh --bootstrap-server {b} --list --topic '[foo[bar]]+.x'
kafka-topics.sh --bootstrap-server {b} --list --topic '[a-z-]+1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo)'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo]'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo}}'
kafka-topics.sh --bootstrap-server {b} --list --topic '[z-a]'
kafka-topics.sh --bootstrap-server {b} --list --topic 'a{{3,2}}'
kafka-topics.sh --bootstrap-server {b} --list --topic 'a**'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo-\d'
kafka-topics.sh --bootstrap-server {b} --list --topic '(?x)f o o - 1'
kafka-topics.sh --bootstrap-server {b} --list --topic '\'
kafka-topics.sh --bootstrap-server {b} --list --topic '(?#c)foo'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo.{{0,99999999999}}'
kafka-topics.sh --bootstrap-server {b} --list --topic '[[:alpha:]]+-1'
kafka-topics.sh --bootstrap-server {b} --list --topic '(?<!x)foo-1'
kafka-topics.sh --bootstrap-server {b} --list --topic 'foo-1|'
kafka-topics.sh --bootstrap-server {b} --list --topic ','
kafka-topics.sh --bootstrap-server {b} --list --topic '"'
kafka-topics.sh --bootstrap-server {b} --list --topic ' '
"""

OFFSETS = r"""
kafka-get-offsets.sh --bootstrap-server {b} --topic ''
kafka-get-offsets.sh --bootstrap-server {b} --topic '' --partitions 0
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions ''
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions ','
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions ':'
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --partitions ''
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --partitions ','
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --partitions 99999999999
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --partitions -1
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --partitions 0,,1
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions filled:99999999999
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions filled:0-99999999999
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions filled:2147483647
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions filled:2147483648
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time ''
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time -99
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time 99999999999999999999
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time LATEST
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time -6
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --command-config ''
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --topic foo-1
kafka-get-offsets.sh --bootstrap-server {b} --bootstrap-server {b} --topic foo-1
"""

FEATURES = r"""
kafka-features.sh --bootstrap-server {b} --command-config {fast} describe --node-id -1
kafka-features.sh --bootstrap-server {b} --command-config {fast} describe --node-id 99
kafka-features.sh --bootstrap-server {b} --command-config {fast} describe --node-id 2147483648
kafka-features.sh --bootstrap-server {b} --command-config {fast} describe --node-id ''
kafka-features.sh --bootstrap-controller {c} --command-config {fast} describe --node-id -1
kafka-features.sh --bootstrap-controller {c} --command-config {fast} describe --node-id 99
kafka-features.sh --bootstrap-server {b} upgrade --feature =1
kafka-features.sh --bootstrap-server {b} upgrade --feature =
kafka-features.sh --bootstrap-server {b} upgrade --feature ''
kafka-features.sh --bootstrap-server {b} upgrade --feature x=
kafka-features.sh --bootstrap-server {b} upgrade --feature x=1=2
kafka-features.sh --bootstrap-server {b} upgrade --feature ' x = 1 '
kafka-features.sh --bootstrap-server {b} upgrade --feature x=99999
kafka-features.sh --bootstrap-server {b} upgrade --feature x=-1
kafka-features.sh --bootstrap-server {b} upgrade --feature x=32768
kafka-features.sh --bootstrap-server {b} upgrade --feature x=32767
kafka-features.sh --bootstrap-server {b} downgrade --feature x=0
kafka-features.sh --bootstrap-server {b} downgrade --feature =0
kafka-features.sh --bootstrap-server {b} downgrade --feature group.version=-1
kafka-features.sh --bootstrap-server {b} disable --feature ''
kafka-features.sh --bootstrap-server {b} disable --feature a=1
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature =1
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature ''
kafka-features.sh --bootstrap-server {b} upgrade --metadata ''
kafka-features.sh --bootstrap-server {b} upgrade --release-version ''
kafka-features.sh --bootstrap-server '' describe
kafka-features.sh --bootstrap-server {b} --command-config '' describe
kafka-features.sh --bootstrap-server {b} --command-config {escape} describe
kafka-features.sh --bootstrap-server {b} upgrade --feature =1 --feature group.version=1
kafka-features.sh --bootstrap-server {b} upgrade --feature =0
kafka-features.sh --bootstrap-server {b} disable --feature '' --dry-run
"""

CLUSTER = r"""
kafka-cluster.sh cluster-id -b {b} --config {fast}
kafka-cluster.sh cluster-id -b {b} --config {fast} --command-config {fast}
kafka-cluster.sh cluster-id -b {b} --config /nowhere --command-config {fast}
kafka-cluster.sh cluster-id -b {b} --config ''
kafka-cluster.sh cluster-id -b {b} --command-config ''
kafka-cluster.sh cluster-id -b {b} --config {fast} --config {fast}
kafka-cluster.sh cluster-id -b ''
kafka-cluster.sh cluster-id -C ''
kafka-cluster.sh cluster-id -b {b} -c {escape}
kafka-cluster.sh cluster-id -b {b} --config {escape}
kafka-cluster.sh list-endpoints -C {c} --include-fenced-brokers
kafka-cluster.sh list-endpoints -C {b}
kafka-cluster.sh list-endpoints -C {c}
kafka-cluster.sh list-endpoints -C {b} -c {fast}
kafka-cluster.sh list-endpoints -b {c}
kafka-cluster.sh cluster-id -C {b}
kafka-cluster.sh unregister -b {b} --id -1
kafka-cluster.sh unregister -b {b} --id 2147483648
kafka-cluster.sh unregister -b {b} --id 99999999999
kafka-cluster.sh unregister -b {b} --id ''
kafka-cluster.sh unregister -b {b} --id 1.5
kafka-cluster.sh unregister -b {b} --id 0x10
kafka-cluster.sh unregister -b {b} --id ' 7'
kafka-cluster.sh list-endpoints -b {c} --include-fenced-brokers
kafka-cluster.sh list-endpoints -b {nobody} -c {fast}
kafka-cluster.sh cluster-id -b {c}
kafka-cluster.sh unregister -b {c} --id 77
"""

CONFIGS = r"""
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config ','
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config ',,'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config ''
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config '='
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config 'a='
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config '=a'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config ' '
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config ',retention.ms=5'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config 'retention.ms=5,'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config 'retention.ms=[5'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config 'retention.ms=5]'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config 'retention.ms=[[5]]'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config 'cleanup.policy=[delete,compact],retention.ms=6'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config 'a[b,c]=[d'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --delete-config ''
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --delete-config ','
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --delete-config 'cleanup.policy,retention.ms'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --delete-config 'retention.ms,'
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config-file {escape}
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config-file {nothing}
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config-file ''
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config-file /nowhere
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name foo-1 --add-config-file {json}
kafka-configs.sh --bootstrap-server {b} --command-config '' --describe --entity-type topics --entity-name foo-1
kafka-configs.sh --bootstrap-server {b} --command-config {escape} --describe --entity-type topics --entity-name foo-1
kafka-configs.sh --bootstrap-server '' --describe --entity-type topics --entity-name foo-1
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics --entity-name ''
kafka-configs.sh --bootstrap-server {b} --describe --entity-type '' --entity-name a
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers --entity-name ''
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers --entity-name -1
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers --entity-name 2147483648
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers --entity-name 01
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers --entity-name +1
kafka-configs.sh --bootstrap-server {b} --describe --entity-type groups --entity-name ''
kafka-configs.sh --bootstrap-server {b} --describe --entity-type client-metrics --entity-name ''
kafka-configs.sh --bootstrap-server {b} --describe --entity-type client-metrics --entity-name ' '
kafka-configs.sh --bootstrap-server {b} --describe --entity-type users --entity-name ''
kafka-configs.sh --bootstrap-server {b} --describe --entity-type clients --entity-name ''
kafka-configs.sh --bootstrap-server {b} --describe --entity-type ips --entity-name ''
kafka-configs.sh --bootstrap-server {b} --describe --entity-type ips --entity-name nosuch.invalid
kafka-configs.sh --bootstrap-server {b} --describe --topic ''
kafka-configs.sh --bootstrap-server {b} --describe --broker ''
kafka-configs.sh --bootstrap-server {b} --describe --group ''
kafka-configs.sh --bootstrap-server {b} --describe --client-metrics ''
kafka-configs.sh --bootstrap-server {b} --describe --user ''
kafka-configs.sh --bootstrap-server {b} --describe --ip ''
kafka-configs.sh --bootstrap-server {b} --alter --topic '' --add-config a=b
kafka-configs.sh --bootstrap-server {b} --alter --broker '' --add-config a=b
kafka-configs.sh --bootstrap-server {b} --alter --group '' --add-config consumer.session.timeout.ms=46000
kafka-configs.sh --bootstrap-server {b} --alter --client-metrics '' --add-config interval.ms=1000
kafka-configs.sh --bootstrap-server {b} --alter --user '' --add-config consumer_byte_rate=1000
kafka-configs.sh --bootstrap-server {b} --alter --client '' --add-config consumer_byte_rate=1000
kafka-configs.sh --bootstrap-server {b} --alter --ip '' --add-config connection_creation_rate=10
kafka-configs.sh --bootstrap-server {b} --alter --topic foo-1 --topic foo-1 --add-config retention.ms=1
kafka-configs.sh --bootstrap-server {b} --alter --topic foo-1 --add-config retention.ms=1 --add-config retention.ms=2
kafka-configs.sh --bootstrap-server {b} --alter --topic foo-1 --add-config retention.ms=1,retention.ms=2
kafka-configs.sh --bootstrap-server {b} --alter --topic foo-1 --add-config retention.ms=99999999999999999999
kafka-configs.sh --bootstrap-server {b} --alter --topic foo-1 --add-config segment.bytes=99999999999
kafka-configs.sh --bootstrap-server {b} --alter --user {s}-u --add-config consumer_byte_rate=99999999999999999999
kafka-configs.sh --bootstrap-server {b} --alter --user {s}-u --add-config consumer_byte_rate=1e3
kafka-configs.sh --bootstrap-server {b} --alter --user {s}-u --add-config consumer_byte_rate=
kafka-configs.sh --bootstrap-server {b} --alter --user {s}-u --add-config consumer_byte_rate=NaN
kafka-configs.sh --bootstrap-server {b} --alter --user {s}-u --add-config consumer_byte_rate=-1
kafka-configs.sh --bootstrap-server {b} --alter --user {s}-u --add-config consumer_byte_rate=0
kafka-configs.sh --bootstrap-server {b} --describe --user {s}-u
kafka-configs.sh --bootstrap-server {b} --alter --user {s}-u --delete-config consumer_byte_rate
kafka-configs.sh --bootstrap-server {b} --alter --ip 127.0.0.9 --add-config connection_creation_rate=10
kafka-configs.sh --bootstrap-server {b} --alter --ip 127.0.0.2 --add-config connection_creation_rate=11
kafka-configs.sh --bootstrap-server {b} --alter --ip 10.0.0.1 --add-config connection_creation_rate=12
kafka-configs.sh --bootstrap-server {b} --alter --ip 192.168.7.1 --add-config connection_creation_rate=12
kafka-configs.sh --bootstrap-server {b} --alter --ip-defaults --add-config connection_creation_rate=13
kafka-configs.sh --bootstrap-server {b} --describe --entity-type ips
kafka-configs.sh --bootstrap-server {b} --alter --user zed --add-config consumer_byte_rate=5
kafka-configs.sh --bootstrap-server {b} --alter --user abe --add-config consumer_byte_rate=5,producer_byte_rate=7
kafka-configs.sh --bootstrap-server {b} --alter --user mia --client c1 --add-config consumer_byte_rate=5
kafka-configs.sh --bootstrap-server {b} --alter --user mia --client-defaults --add-config request_percentage=5
kafka-configs.sh --bootstrap-server {b} --alter --user-defaults --add-config request_percentage=50
kafka-configs.sh --bootstrap-server {b} --alter --client c9 --add-config request_percentage=50
kafka-configs.sh --bootstrap-server {b} --alter --client c1 --add-config controller_mutation_rate=50
kafka-configs.sh --bootstrap-server {b} --describe --entity-type users
kafka-configs.sh --bootstrap-server {b} --describe --entity-type clients
kafka-configs.sh --bootstrap-server {b} --describe --entity-type users --entity-type clients
kafka-configs.sh --bootstrap-server {b} --describe --entity-type clients --entity-type users
kafka-configs.sh --bootstrap-server {b} --describe --user mia --entity-type clients
kafka-configs.sh --bootstrap-server {b} --describe --client c1 --entity-type users
kafka-configs.sh --bootstrap-server {b} --describe --user-defaults
kafka-configs.sh --bootstrap-server {b} --describe --ip 127.0.0.9
kafka-configs.sh --bootstrap-server {b} --describe --ip-defaults
"""

LOG_DIRS = r"""
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list ''
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list ','
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list 2147483648
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list -1
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list ' 1'
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list 1,1
kafka-log-dirs.sh --bootstrap-server {b} --describe --topic-list ''
kafka-log-dirs.sh --bootstrap-server {b} --describe --topic-list ','
kafka-log-dirs.sh --bootstrap-server {b} --describe --topic-list filled,filled
kafka-log-dirs.sh --bootstrap-server {b} --describe --topic-list ' filled'
kafka-log-dirs.sh --bootstrap-server {b} --describe --command-config ''
kafka-log-dirs.sh --bootstrap-server '' --describe
kafka-log-dirs.sh --bootstrap-server {b} --describe --command-config {escape}
kafka-log-dirs.sh --bootstrap-server {b} --describe --describe --topic-list nosuch
kafka-log-dirs.sh --bootstrap-server {b} --describe --topic-list a --topic-list b
"""

DELETIONS = r"""
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file ''
kafka-delete-records.sh --bootstrap-server '' --offset-json-file {json}/none.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/none.json --command-config ''
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dempty.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dneg.json --command-config {fast}
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dbig.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dfloat.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dnull.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dver.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dverf.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dtext.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-dup.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/odd-nulls.json
"""

API_VERSIONS = r"""
kafka-broker-api-versions.sh --bootstrap-server ''
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config ''
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {escape}
kafka-broker-api-versions.sh --bootstrap-server {nobody} --command-config {fast}
kafka-broker-api-versions.sh --bootstrap-server {b} --bootstrap-server {b}
kafka-broker-api-versions.sh --bootstrap-server ' '
kafka-broker-api-versions.sh --bootstrap-server ,
"""

QUORUM = r"""
kafka-metadata-quorum.sh --bootstrap-server '' describe --status
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config '' describe --status
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {escape} describe --status
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i 2147483648 -d AAAAAAAAAAAAAAAAAAAAAQ
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i 99999999999 -d AAAAAAAAAAAAAAAAAAAAAQ
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i '' -d AAAAAAAAAAAAAAAAAAAAAQ
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i 9 -d ''
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i 9 -d A
"""

REASSIGNMENTS = r"""
kafka-reassign-partitions.sh --bootstrap-server {b} --list --command-config ''
kafka-reassign-partitions.sh --bootstrap-server '' --list
kafka-reassign-partitions.sh --bootstrap-server= --list
kafka-reassign-partitions.sh --list --bootstrap-server
kafka-reassign-partitions.sh --bootstrap-server {b} --list --command-config {escape}
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file ''
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/odd-nulls.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/odd-dfloat.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/stay.json --timeout -1
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/stay.json --throttle 0
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/stay.json --throttle -5
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-nulls.json --broker-list 1
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-topic.json --broker-list 1,2147483648
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-topic.json --broker-list 1,
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-topic.json --broker-list ,1
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-topic.json --broker-list ' 1'
kafka-reassign-partitions.sh --list --bootstrap-controller
kafka-reassign-partitions.sh --list --bootstrap-server --command-config {fast}
kafka-reassign-partitions.sh --list --bootstrap-controller --command-config {fast}
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-topic.json --broker-list ,
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-topic.json --broker-list 1,,2
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --disallow-replication-factor-change --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --disallow-replication-factor-change --reassignment-json-file {json}/rf.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --disallow-replication-factor-change --reassignment-json-file {json}/rfall.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --disallow-replication-factor-change --additional --reassignment-json-file {json}/rf.json
kafka-reassign-partitions.sh --bootstrap-server {b} --list --disallow-replication-factor-change
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/odd-topicopic.json
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/odd-topicopic.json
kafka-reassign-partitions.sh --bootstrap-server {b} --cancel --reassignment-json-file {json}/odd-topicopic.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/neg.json
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/neg.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/negb.json
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/two.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/two.json
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-topic.json --broker-list 1,2
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/odd-topic.json --broker-list ''
kafka-reassign-partitions.sh --bootstrap-server {b} --list --timeout 99999999999999999999
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --throttle 99999999999999999999 --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/unk.json
"""
