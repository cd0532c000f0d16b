"""Command lines that Kafka's tools and Moldau's are run with, by tool, each list in its order."""

# ruff: noqa: E501  # a case is a line

from __future__ import annotations

TOPICS = """
kafka-topics.sh
kafka-topics.sh --help
kafka-topics.sh --version
kafka-topics.sh --bogus
kafka-topics.sh --topic
kafka-topics.sh --list
kafka-topics.sh --list --bootstrap-server {nobody} --command-config {fast}
kafka-topics.sh --list --bootstrap-server {silent} --command-config {fast}
kafka-topics.sh --list --bootstrap-server nosuchhost.invalid:9092
kafka-topics.sh --list --bootstrap-server 127.0.0.1
kafka-topics.sh --list --bootstrap-server 127.0.0.1:99999
kafka-topics.sh --list --bootstrap-server ''
kafka-topics.sh --list --bootstrap-server {b} --command-config /nowhere
kafka-topics.sh --list --bootstrap-server {b} --command-config {bad}
kafka-topics.sh --describe --bootstrap-server {nobody} --command-config {fast}
kafka-topics.sh --create --topic a --bootstrap-server {nobody} --command-config {fast}
kafka-topics.sh --bootstrap-server {b}
kafka-topics.sh --list --create --bootstrap-server {b}
kafka-topics.sh --create --bootstrap-server {b}
kafka-topics.sh --alter --topic a --bootstrap-server {b}
kafka-topics.sh --list --config x=y --bootstrap-server {b}
kafka-topics.sh --create --topic a --replica-assignment 1 --partitions 3 --bootstrap-server {b}
kafka-topics.sh --delete --topic a --partitions 3 --bootstrap-server {b}
kafka-topics.sh --describe --topics-with-overrides --under-replicated-partitions --bootstrap-server {b}
kafka-topics.sh --describe --if-exists --bootstrap-server {b}
kafka-topics.sh --create --topic a --if-exists --bootstrap-server {b}
kafka-topics.sh --delete --topic a --if-not-exists --bootstrap-server {b}
kafka-topics.sh --delete --topic a --exclude-internal --bootstrap-server {b}
kafka-topics.sh --delete --delete-config a --topic nosuch --bootstrap-server {b}
kafka-topics.sh --topic a --topic b --list --bootstrap-server {b}
kafka-topics.sh --create --topic a.b --partitions 0 --bootstrap-server {b}
kafka-topics.sh --create --topic a.b --replication-factor 0 --bootstrap-server {b}
kafka-topics.sh --create --topic a.b --replication-factor x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config x=1 --bootstrap-server {b}
kafka-topics.sh --create --topic a --config retention.ms=x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config retention.ms=-5 --bootstrap-server {b}
kafka-topics.sh --create --topic a --config cleanup.policy=x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config preallocate=x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config min.cleanable.dirty.ratio=x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config min.cleanable.dirty.ratio=1.5 --bootstrap-server {b}
kafka-topics.sh --create --topic a --config min.insync.replicas=x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config min.insync.replicas=0 --bootstrap-server {b}
kafka-topics.sh --create --topic a --config compression.type=x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config compression.lz4.level=18 --bootstrap-server {b}
kafka-topics.sh --create --topic a --config compression.zstd.level=99 --bootstrap-server {b}
kafka-topics.sh --create --topic a --config compression.gzip.level=10 --bootstrap-server {b}
kafka-topics.sh --create --topic a --config message.timestamp.type=x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config segment.bytes=1 --bootstrap-server {b}
kafka-topics.sh --create --topic a --config leader.replication.throttled.replicas=x --bootstrap-server {b}
kafka-topics.sh --create --topic a --config min.compaction.lag.ms=5 --config max.compaction.lag.ms=1 --bootstrap-server {b}
kafka-topics.sh --create --topic a --replica-assignment x --bootstrap-server {b}
kafka-topics.sh --create --topic a --replica-assignment 1:1 --bootstrap-server {b}
kafka-topics.sh --create --topic a --replica-assignment 1:2,1 --bootstrap-server {b}
kafka-topics.sh --create --topic a --replica-assignment 1:9 --bootstrap-server {b}
kafka-topics.sh --create --topic a --replication-factor 4 --bootstrap-server {b}
kafka-topics.sh --create --topic 'a/b' --bootstrap-server {b}
kafka-topics.sh --create --topic . --bootstrap-server {b}
kafka-topics.sh --create --topic '' --bootstrap-server {b}
kafka-topics.sh --create --topic {s}-orders --bootstrap-server {b}
kafka-topics.sh --create --topic {s}-orders --bootstrap-server {b}
kafka-topics.sh --create --topic {s}-orders --if-not-exists --bootstrap-server {b}
kafka-topics.sh --create --topic {s}_under.score --partitions 2 --replication-factor 2 --config retention.ms=1000 --config cleanup.policy=compact --bootstrap-server {b}
kafka-topics.sh --create --topic {s}-hand --replica-assignment 1:2,2:3 --bootstrap-server {b}
kafka-topics.sh --alter --topic {s}-hand --partitions 1 --bootstrap-server {b}
kafka-topics.sh --alter --topic {s}-hand --partitions x --bootstrap-server {b}
kafka-topics.sh --alter --topic {s}-hand --partitions 3 --replica-assignment 1:2,2:3,3:1 --bootstrap-server {b}
kafka-topics.sh --alter --topic {s}-hand --partitions 4 --replica-assignment 1:2,2:3,3:1 --bootstrap-server {b}
kafka-topics.sh --alter --topic nosuch --partitions 4 --bootstrap-server {b}
kafka-topics.sh --alter --topic nosuch --if-exists --partitions 4 --bootstrap-server {b}
kafka-topics.sh --list --topic {s}[-_].* --bootstrap-server {b}
kafka-topics.sh --list --topic ' "{s}-orders , {s}-hand" ' --bootstrap-server {b}
kafka-topics.sh --list --topic nosuch --bootstrap-server {b}
kafka-topics.sh --list --topic '(' --bootstrap-server {b}
kafka-topics.sh --list --exclude-internal --bootstrap-server {b}
kafka-topics.sh --describe --topic {s}-hand --bootstrap-server {b}
kafka-topics.sh --describe --topic '[jm]-hand' --bootstrap-server {b} --partition-size-limit-per-response 1
kafka-topics.sh --describe --topic '[jm]_.*' --bootstrap-server {b}
kafka-topics.sh --describe --bootstrap-server {b}
kafka-topics.sh --describe --exclude-internal --bootstrap-server {b}
kafka-topics.sh --describe --topic nosuch --bootstrap-server {b}
kafka-topics.sh --describe --topic nosuch --if-exists --bootstrap-server {b}
kafka-topics.sh --describe --topic-id x --bootstrap-server {b}
kafka-topics.sh --describe --topic-id abcd --bootstrap-server {b}
kafka-topics.sh --describe --topic-id abcdefghijklmnopqrstuv --bootstrap-server {b}
kafka-topics.sh --describe --topic-id abcdefghijklmnopqrstuvwxyz --bootstrap-server {b}
kafka-topics.sh --describe --topic-id '!?' --bootstrap-server {b}
kafka-topics.sh --describe --topic-id {id} --bootstrap-server {b}
kafka-topics.sh --describe --topic-id {id} --topic nosuch --if-exists --bootstrap-server {b}
kafka-topics.sh --describe --topic-id AAAAAAAAAAAAAAAAAAAAAA --topic {s}-hand --bootstrap-server {b}
kafka-topics.sh --describe --topics-with-overrides --bootstrap-server {b}
kafka-topics.sh --describe --under-replicated-partitions --bootstrap-server {b}
kafka-topics.sh --describe --under-min-isr-partitions --bootstrap-server {b}
kafka-topics.sh --describe --at-min-isr-partitions --bootstrap-server {b}
kafka-topics.sh --describe --unavailable-partitions --bootstrap-server {b}
kafka-topics.sh --delete --topic nosuch --bootstrap-server {b}
kafka-topics.sh --delete --topic nosuch --if-exists --bootstrap-server {b}
kafka-topics.sh --delete --topic {s}-orders --bootstrap-server {b}
kafka-topics.sh --delete --topic {s}-orders --bootstrap-server {b}
kafka-topics.sh --delete --topic {s}-hand,{s}_under.score --bootstrap-server {b}
"""

OFFSETS = """
kafka-get-offsets.sh
kafka-get-offsets.sh --help
kafka-get-offsets.sh --version
kafka-get-offsets.sh --bogus
kafka-get-offsets.sh --topic a
kafka-get-offsets.sh --bootstrap-server ''
kafka-get-offsets.sh --bootstrap-server a
kafka-get-offsets.sh --bootstrap-server a:1,b
kafka-get-offsets.sh --bootstrap-server {nobody} --command-config {fast}
kafka-get-offsets.sh --bootstrap-server {b} --command-config /nowhere
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions a:1 --topic a
kafka-get-offsets.sh --bootstrap-server {b} --topic a --time soon
kafka-get-offsets.sh --bootstrap-server {b} --topic a --partitions 0,x
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions a:1:2
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions '(:1'
kafka-get-offsets.sh --bootstrap-server {b} --topic nosuch
kafka-get-offsets.sh --bootstrap-server {b}
kafka-get-offsets.sh --bootstrap-server {b} --exclude-internal-topics
kafka-get-offsets.sh --bootstrap-server {b} --topic filled
kafka-get-offsets.sh --bootstrap-server {b} --topic fil.*,other --partitions 0,2,9
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions filled:1
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions filled:1-,:0
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions filled:-2
kafka-get-offsets.sh --bootstrap-server {b} --topic-partitions filled:0-1,filled:2-9
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time earliest
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time -2
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time latest
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time max-timestamp
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time -3
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time earliest-local
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time latest-tiered
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time 1700000000005
kafka-get-offsets.sh --bootstrap-server {b} --topic filled --time 99999999999999
"""

ELECTIONS = """
kafka-leader-election.sh
kafka-leader-election.sh --help
kafka-leader-election.sh --version
kafka-leader-election.sh --bogus
kafka-leader-election.sh --topic a
kafka-leader-election.sh --bootstrap-server {b} --topic a
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --topic a
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --all-topic-partitions --topic a
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --all-topic-partitions --partition 0
kafka-leader-election.sh --bootstrap-server {b} --election-type best --all-topic-partitions
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --topic filled --partition x
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file /nowhere
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/no.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/empty.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/list.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/object.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/nolist.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/notopic.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/text.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/twice.json
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --path-to-json-file {json}/good.json
kafka-leader-election.sh --bootstrap-server {b} --election-type PREFERRED --topic filled --partition 0
kafka-leader-election.sh --bootstrap-server {b} --election-type unclean --topic filled --partition 0
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --topic filled --partition 77
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --topic nosuch --partition 0
kafka-leader-election.sh --bootstrap-server {b} --election-type preferred --all-topic-partitions
kafka-leader-election.sh --bootstrap-server {nobody} --election-type preferred --all-topic-partitions --command-config {fast}
"""

DELETIONS = """
kafka-delete-records.sh
kafka-delete-records.sh --help
kafka-delete-records.sh --version
kafka-delete-records.sh --bogus
kafka-delete-records.sh --bootstrap-server {b}
kafka-delete-records.sh --offset-json-file /nowhere
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file /nowhere
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/no.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/empty.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/list.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/object.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/version.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/textversion.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/good.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/offsettwice.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/offsets.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/offsets.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/end.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/beyond.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/none.json
kafka-delete-records.sh --bootstrap-server {b} --offset-json-file {json}/stranger.json --command-config {fast}
kafka-delete-records.sh --bootstrap-server {nobody} --offset-json-file {json}/offsets.json --command-config {fast}
"""

LOG_DIRS = """
kafka-log-dirs.sh
kafka-log-dirs.sh --help
kafka-log-dirs.sh --version
kafka-log-dirs.sh --bogus
kafka-log-dirs.sh --bootstrap-server {b}
kafka-log-dirs.sh --describe
kafka-log-dirs.sh --bootstrap-server {b} --describe
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list 1,3
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list 1,x
kafka-log-dirs.sh --bootstrap-server {b} --describe --broker-list 9,1,7
kafka-log-dirs.sh --bootstrap-server {b} --describe --topic-list filled,,nosuch
kafka-log-dirs.sh --bootstrap-server {b} --describe --topic-list nosuch --broker-list 2,,
kafka-log-dirs.sh --bootstrap-server {nobody} --describe --command-config {fast}
"""

REASSIGNMENTS = """
kafka-reassign-partitions.sh
kafka-reassign-partitions.sh --help
kafka-reassign-partitions.sh --version
kafka-reassign-partitions.sh --bogus
kafka-reassign-partitions.sh --bootstrap-server {b}
kafka-reassign-partitions.sh --bootstrap-server {b} --list --verify
kafka-reassign-partitions.sh --list
kafka-reassign-partitions.sh --bootstrap-server {b} --bootstrap-controller {b} --list
kafka-reassign-partitions.sh --bootstrap-server {b} --verify
kafka-reassign-partitions.sh --bootstrap-server {b} --generate
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --broker-list 1
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/stay.json --throttle 5
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/stay.json --preserve-throttles
kafka-reassign-partitions.sh --bootstrap-server {b} --list --additional
kafka-reassign-partitions.sh --bootstrap-controller {b} --verify --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file /nowhere
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/no.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/word.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/list.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/version.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/object.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/none.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/notopic.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/noreplicas.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/movetwice.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/samebroker.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/dirs.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/ninth.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/nosuch.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/nopart.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/stay.json --throttle x
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/relative.json --timeout 300
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --bootstrap-server {b} --execute --reassignment-json-file {json}/stay.json --throttle 5000000 --replica-alter-log-dirs-throttle 6000000
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/stay.json --preserve-throttles
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/otherwise.json
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/nopart.json --preserve-throttles
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/justpast.json --preserve-throttles
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/nosuch.json
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/elsewhere.json
kafka-reassign-partitions.sh --bootstrap-server {b} --verify --reassignment-json-file {json}/none.json --preserve-throttles
kafka-reassign-partitions.sh --bootstrap-server {b} --cancel --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --bootstrap-server {b} --cancel --reassignment-json-file {json}/stay.json --preserve-throttles
kafka-reassign-partitions.sh --bootstrap-server {b} --list
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/topics.json --broker-list 2,2
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/topics.json --broker-list x
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/topics.json --broker-list 2
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/single.json --broker-list 2
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/topicstwice.json --broker-list 2
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/notopics.json --broker-list 2
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/no.json --broker-list 2
kafka-reassign-partitions.sh --bootstrap-server {b} --generate --topics-to-move-json-file {json}/object.json --broker-list 2
kafka-reassign-partitions.sh --bootstrap-server {nobody} --list --command-config {fast}
kafka-reassign-partitions.sh --bootstrap-server {nobody} --execute --reassignment-json-file {json}/stay.json --command-config {fast}
"""

CONFIGS = """
kafka-configs.sh --bootstrap-server {b}
kafka-configs.sh --bootstrap-server {b} --describe
kafka-configs.sh --bootstrap-server {b} --describe --alter
kafka-configs.sh --describe --entity-type topics
kafka-configs.sh --bootstrap-server {b} --describe --entity-type things
kafka-configs.sh --bootstrap-server {b} --bootstrap-controller {b} --describe --entity-type topics
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics --entity-type topics
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics --entity-type brokers
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics --topic a
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers --entity-name a
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics --entity-default
kafka-configs.sh --bootstrap-server {b} --describe --entity-type broker-loggers
kafka-configs.sh --bootstrap-server {b} --describe --add-config a=b --entity-type topics
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name a
kafka-configs.sh --bootstrap-server {b} --alter --topic a --add-config-file /nowhere --add-config a=b
kafka-configs.sh --bootstrap-server {b} --alter --topic a --add-config-file /nowhere
kafka-configs.sh --bootstrap-server {b} --alter --topic a --add-config a
kafka-configs.sh --bootstrap-server {b} --alter --topic a --add-config 'a!=b'
kafka-configs.sh --bootstrap-server {b} --alter --broker x --add-config 'a=b'
kafka-configs.sh --bootstrap-server {b} --alter --ip x --add-config 'a=b'
kafka-configs.sh --bootstrap-server {b} --alter --ip 1.2.3.4 --add-config 'a=b'
kafka-configs.sh --bootstrap-server {b} --alter --user x --add-config 'a=b'
kafka-configs.sh --bootstrap-server {b} --alter --client x --add-config 'a=b'
kafka-configs.sh --bootstrap-server {b} --alter --user x --delete-config 'a'
kafka-configs.sh --bootstrap-server {b} --alter --user x --add-config 'producer_byte_rate=5,SCRAM-SHA-256=[password=x]'
kafka-configs.sh --bootstrap-server {b} --describe --topic a
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics --command-config /nowhere
kafka-configs.sh --bootstrap-server 127.0.0.1 --describe --entity-type topics
kafka-configs.sh --bootstrap-server {b} --describe --entity-name a
kafka-configs.sh --bootstrap-server {b} --alter --user-defaults --add-config 'SCRAM-SHA-256=[password=x]'
kafka-configs.sh
kafka-configs.sh --help
kafka-configs.sh --version
kafka-configs.sh --bogus
kafka-configs.sh --bootstrap-server {b} --describe --topic {s}-conf
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-conf --add-config retention.ms=1000,cleanup.policy=[compact,delete]
kafka-configs.sh --bootstrap-server {b} --describe --topic {s}-conf
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics --entity-name {s}-conf --all
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name {s}-conf --delete-config retention.ms,segment.ms
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name {s}-conf --delete-config retention.ms
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-conf --add-config-file {json}/topic.properties
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-conf --add-config retention.ms=
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-conf --add-config nosuch.key=5
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-conf --add-config retention.ms=abc
kafka-configs.sh --bootstrap-server {b} --describe --topic {s}-conf
kafka-configs.sh --bootstrap-server {b} --describe --topic nosuch
kafka-configs.sh --bootstrap-server {b} --describe --topic 'a/b'
kafka-configs.sh --bootstrap-server {b} --alter --topic nosuch --add-config retention.ms=5
kafka-configs.sh --bootstrap-server {b} --alter --topic nosuch --delete-config retention.ms
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics
kafka-configs.sh --bootstrap-server {b} --describe --broker 1
kafka-configs.sh --bootstrap-server {b} --describe --broker 9 --command-config {fast}
kafka-configs.sh --bootstrap-server {b} --describe --broker-defaults
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers --entity-name 2 --all
kafka-configs.sh --bootstrap-server {b} --alter --broker 1 --add-config log.cleaner.threads=2
kafka-configs.sh --bootstrap-server {b} --describe --broker 1
kafka-configs.sh --bootstrap-server {b} --alter --broker 1 --delete-config log.cleaner.threads
kafka-configs.sh --bootstrap-server {b} --alter --entity-type brokers --entity-default --add-config log.retention.ms=86400000
kafka-configs.sh --bootstrap-server {b} --describe --entity-type brokers --entity-default
kafka-configs.sh --bootstrap-server {b} --alter --broker-defaults --delete-config nosuch
kafka-configs.sh --bootstrap-server {b} --alter --broker 1 --add-config broker.id=5
kafka-configs.sh --bootstrap-server {b} --describe --broker-logger 1
kafka-configs.sh --bootstrap-server {b} --alter --broker-logger 1 --add-config no.such.logger=INFO
kafka-configs.sh --bootstrap-server {b} --describe --group {s}-group
kafka-configs.sh --bootstrap-server {b} --alter --group {s}-group --add-config consumer.session.timeout.ms=50000
kafka-configs.sh --bootstrap-server {b} --describe --group {s}-group
kafka-configs.sh --bootstrap-server {b} --describe --entity-type client-metrics
kafka-configs.sh --bootstrap-server {b} --alter --client-metrics {s}-metrics --add-config interval.ms=5000,metrics=[a,b]
kafka-configs.sh --bootstrap-server {b} --describe --client-metrics {s}-metrics
kafka-configs.sh --bootstrap-server {b} --describe --entity-type users
kafka-configs.sh --bootstrap-server {b} --describe --client c
kafka-configs.sh --bootstrap-server {b} --describe --ip 127.0.0.1
kafka-configs.sh --bootstrap-server {b} --alter --client c --add-config producer_byte_rate=1000
kafka-configs.sh --bootstrap-server {nobody} --describe --topic x --command-config {fast}
kafka-configs.sh --bootstrap-server {nobody} --describe --broker-defaults --command-config {fast}
"""

API_VERSIONS = """
kafka-broker-api-versions.sh
kafka-broker-api-versions.sh --help
kafka-broker-api-versions.sh --version
kafka-broker-api-versions.sh --bogus
kafka-broker-api-versions.sh --command-config {fast}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config /nowhere
kafka-broker-api-versions.sh --bootstrap-server 127.0.0.1
kafka-broker-api-versions.sh --bootstrap-server {b}
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {fast}
kafka-broker-api-versions.sh --bootstrap-server {nobody} --command-config {fast}
"""
