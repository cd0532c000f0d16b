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
kafka-topics.sh --list --bootstrap-server {b} --command-config {shorter}
kafka-topics.sh --list --bootstrap-server {b} --command-config {escape}
kafka-topics.sh --list --bootstrap-server {b} --command-config {reporter}
kafka-topics.sh --list --bootstrap-server {b},
kafka-topics.sh --list --bootstrap-server ,
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
kafka-get-offsets.sh --bootstrap-server ,
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
kafka-configs.sh --bootstrap-server {b} --describe --topic {s}-config
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-config --add-config retention.ms=1000,cleanup.policy=[compact,delete]
kafka-configs.sh --bootstrap-server {b} --describe --topic {s}-config
kafka-configs.sh --bootstrap-server {b} --describe --entity-type topics --entity-name {s}-config --all
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name {s}-config --delete-config retention.ms,segment.ms
kafka-configs.sh --bootstrap-server {b} --alter --entity-type topics --entity-name {s}-config --delete-config retention.ms
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-config --add-config-file {json}/topic.properties
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-config --add-config retention.ms=
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-config --add-config nosuch.key=5
kafka-configs.sh --bootstrap-server {b} --alter --topic {s}-config --add-config retention.ms=abc
kafka-configs.sh --bootstrap-server {b} --describe --topic {s}-config
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
kafka-broker-api-versions.sh --bootstrap-server {b} --command-config {slow}
kafka-broker-api-versions.sh --bootstrap-server {nobody} --command-config {fast}
"""

GROUPS = """
kafka-consumer-groups.sh
kafka-consumer-groups.sh --help
kafka-consumer-groups.sh --version
kafka-consumer-groups.sh --bogus
kafka-consumer-groups.sh --members --list --bootstrap-server {b}
kafka-consumer-groups.sh --list
kafka-consumer-groups.sh --list --timeout x --bootstrap-server {b}
kafka-consumer-groups.sh --list --bootstrap-server 127.0.0.1
kafka-consumer-groups.sh --list --bootstrap-server {b} --command-config /nowhere
kafka-consumer-groups.sh --list --bootstrap-server {b} --command-config {escape}
kafka-consumer-groups.sh --list --bootstrap-server {b} --command-config {bad}
kafka-consumer-groups.sh --list --bootstrap-server {nobody} --timeout 1000
kafka-consumer-groups.sh --list --bootstrap-server {silent} --timeout 1500
kafka-consumer-groups.sh --describe --group calm --bootstrap-server {nobody} --timeout 1000
kafka-consumer-groups.sh --describe --all-groups --bootstrap-server {nobody} --timeout 1000
kafka-consumer-groups.sh --delete --group calm --bootstrap-server {nobody} --timeout 1000
kafka-consumer-groups.sh --delete-offsets --group calm --topic a --bootstrap-server {nobody} --timeout 1000
kafka-consumer-groups.sh --reset-offsets --dry-run --group calm --topic a --to-latest --bootstrap-server {nobody} --timeout 1000
kafka-consumer-groups.sh --group a --bootstrap-server {b}
kafka-consumer-groups.sh --list --delete --bootstrap-server {b}
kafka-consumer-groups.sh --list --group a --bootstrap-server {b}
kafka-consumer-groups.sh --list --topic a --bootstrap-server {b}
kafka-consumer-groups.sh --describe --bootstrap-server {b}
kafka-consumer-groups.sh --describe --members --offsets --group calm --bootstrap-server {b}
kafka-consumer-groups.sh --describe --state x --group calm --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group a --group b --all-groups --bootstrap-server {b}
kafka-consumer-groups.sh --delete --group calm --topic a --bootstrap-server {b}
kafka-consumer-groups.sh --delete-offsets --group a,b --bootstrap-server {b}
kafka-consumer-groups.sh --validate-regex 'orders-[0-9]+'
kafka-consumer-groups.sh --validate-regex 'orders-('
kafka-consumer-groups.sh --validate-regex 'a**'
kafka-consumer-groups.sh --validate-regex '(?=a)' --bootstrap-server {b}
kafka-consumer-groups.sh --list --bootstrap-server {b}
kafka-consumer-groups.sh --list --state --bootstrap-server {b}
kafka-consumer-groups.sh --list --type --bootstrap-server {b}
kafka-consumer-groups.sh --list --type classic,CONSUMER --state empty --bootstrap-server {b}
kafka-consumer-groups.sh --list --type consumer --state Empty --bootstrap-server {b}
kafka-consumer-groups.sh --list --type x --bootstrap-server {b}
kafka-consumer-groups.sh --list --state Stable,foo --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group live --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group live --members --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group live --members --verbose --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group live --state --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group live --state --verbose --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group live --offsets --verbose --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group live-two --members --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group calm --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group calm --members --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group calm --state --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group nosuch --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group nosuch --group live --state --bootstrap-server {b}
kafka-consumer-groups.sh --describe --all-groups --state --bootstrap-server {b}
kafka-consumer-groups.sh --describe --all-groups --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group orphan --bootstrap-server {b}
kafka-consumer-groups.sh --delete-offsets --group {s}-spare --topic read:0 --topic other --topic nosuch --bootstrap-server {b}
kafka-consumer-groups.sh --delete-offsets --group {s}-spare --topic read:x --bootstrap-server {b}
kafka-consumer-groups.sh --delete-offsets --group {s}-spare --topic read:9 --bootstrap-server {b}
kafka-consumer-groups.sh --delete-offsets --group live --topic read:0 --bootstrap-server {b}
kafka-consumer-groups.sh --delete-offsets --group nosuch --topic read:0 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --to-earliest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --execute --to-latest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --to-latest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --to-current --to-latest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:x --dry-run --to-earliest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:0:1 --dry-run --to-earliest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic nosuch --dry-run --to-earliest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic nosuch:0 --dry-run --to-earliest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:9,0 --dry-run --to-earliest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:0 --dry-run --to-offset 100 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:0 --dry-run --to-offset x --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:1 --dry-run --shift-by -1 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --all-topics --dry-run --shift-by -4 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --all-topics --dry-run --shift-by 4 --export --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --all-topics --dry-run --to-current --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --to-current --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --to-datetime 2023-11-14T22:13:20.004 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --to-datetime 2023-11-15T00:13:20.007+02 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --to-datetime 2033-11-14T22:13:20.004Z --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --to-datetime x --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --to-datetime 2023-11-14T22:13:20 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --to-datetime 2023-11-34T22:13:20.000 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --by-duration x --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --by-duration PT0S --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --by-duration P9999DT1H --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --by-duration P99999D --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --by-duration PT99999999999999H --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --by-duration P106751991167300D --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --by-duration P999999999999999999D --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --by-duration P110000000000D --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:0,1,1 --dry-run --to-offset 5 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:1,0,1 --dry-run --shift-by 1 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read --dry-run --shift-by 9223372036854775807 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic other --dry-run --shift-by 1 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/negative.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/badname.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file /nowhere --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/good.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/group.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group m-calm --group j-calm --dry-run --from-file {json}/group.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group calm --dry-run --from-file {json}/group.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/many.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/word.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/nonumber.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/empty.json --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --dry-run --from-file {json}/half.csv --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group live --topic read --to-earliest --dry-run --export --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --all-groups --topic read:1 --dry-run --to-latest --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-new --topic read --to-earliest --execute --export --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group {s}-new --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --group calm --topic read --to-latest --dry-run --export --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --topic read:1 --topic other --execute --to-offset 4 --bootstrap-server {b}
kafka-consumer-groups.sh --reset-offsets --group {s}-calm --execute --from-file {json}/good.csv --bootstrap-server {b}
kafka-consumer-groups.sh --describe --group {s}-calm --bootstrap-server {b}
kafka-consumer-groups.sh --delete --group nosuch --bootstrap-server {b}
kafka-consumer-groups.sh --delete --group live --group {s}-spare --bootstrap-server {b}
kafka-consumer-groups.sh --delete --group {s}-new --group {s}-calm --bootstrap-server {b}
"""

GROUPS_RESET = """
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic read:7
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic read:0,7
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic read:-1
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic read --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-latest --topic read:0 --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-offset 2 --topic read --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --shift-by 1 --topic read:0 --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-current --topic read --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-current --topic read:0 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000 --topic read --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic a,b
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic read,other
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic read,other:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic ''
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic 'b ad'
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic 'b ad:0'
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic ':0'
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-earliest --topic nosuch:0
kafka-consumer-groups.sh --bootstrap-server {b} --group {s}-calm --delete-offsets --topic a,b
kafka-consumer-groups.sh --bootstrap-server {b} --group {s}-calm --delete-offsets --topic read:7
kafka-consumer-groups.sh --bootstrap-server {b} --group {s}-calm --delete-offsets --topic other --topic other
kafka-consumer-groups.sh --bootstrap-server {b} --group {s}-calm --delete-offsets --topic read:1 --topic read:1
kafka-consumer-groups.sh --bootstrap-server {b} --group {s}-calm --delete-offsets --topic 'b ad'
kafka-consumer-groups.sh --bootstrap-server {b} --group {s}-calm --delete-offsets --topic ''
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000+19:00 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000+18:00 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000+24:00 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000+23:59 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000-19:00 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000+01:60 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000+1 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000+0100 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2020-01-01T00:00:00.000+01 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-14T22:13:20.005Z --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-15T17:13:20.005+19:00 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-14T22:13:20.005Zjunk --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-14T22:13:20 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-31T22:13:20.000 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-14T24:00:00.000 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 12023-11-14T20:00:00.000 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 0000-11-14T20:00:00.000 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --group calm --reset-offsets --dry-run --to-earliest --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --group calm --describe
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-15T17:13:20.005+14:00 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-15T17:13:20.005+14:01 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-15T17:13:20.005-13:00 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-15T17:13:20.005-13:01 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 292278994-01-01T00:00:00.000 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 292278995-01-01T00:00:00.000 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 10000-02-29T00:00:00.000 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 10001-02-29T00:00:00.000 --topic read
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-current --topic read:1 --topic read:1
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --timeout 3000 --from-file {json}/nopart.csv
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --timeout 3000 --from-file {json}/negative.csv
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-14T22:43:20.005+00:30 --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-15T12:43:20.005+14:30 --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-15T12:13:20.005+14:30 --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-15T12:13:20.005+1430 --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-14T22:43:20.005+0030 --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-14T22:13:20.005+00:60 --topic read:0
kafka-consumer-groups.sh --bootstrap-server {b} --group calm --reset-offsets --dry-run --to-datetime 2023-11-14T23:13:20.005+00:60 --topic read:0
"""
QUORUM = """
kafka-metadata-quorum.sh
kafka-metadata-quorum.sh --help
kafka-metadata-quorum.sh describe --help
kafka-metadata-quorum.sh add-controller --help
kafka-metadata-quorum.sh remove-controller --help
kafka-metadata-quorum.sh --bootstrap-server {b}
kafka-metadata-quorum.sh --bootstrap-server {b} describe
kafka-metadata-quorum.sh --bogus
kafka-metadata-quorum.sh --bootstrap-server
kafka-metadata-quorum.sh --bootstrap-server {b} foo
kafka-metadata-quorum.sh --bootstrap-server {b} describe foo
kafka-metadata-quorum.sh --bootstrap-server {b} --bootstrap-controller {b} describe --status
kafka-metadata-quorum.sh describe --status
kafka-metadata-quorum.sh --bootstrap-server {b} describe --status
kafka-metadata-quorum.sh --bootstrap-controller , describe --status
kafka-metadata-quorum.sh --bootstrap-server {b} describe --replication
kafka-metadata-quorum.sh --bootstrap-server {b} describe --replication --status
kafka-metadata-quorum.sh --bootstrap-server {b} describe --status --human-readable
kafka-metadata-quorum.sh --bootstrap-server {b} add-controller
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i x -d y
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i -1 -d y
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i 1 -d y
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller -i 9 -d AAAAAAAAAAAAAAAAAAAAAA
kafka-metadata-quorum.sh --bootstrap-server {b} remove-controller --dry-run -i 9 -d AAAAAAAAAAAAAAAAAAAAAQ
kafka-metadata-quorum.sh --bootstrap-server {nobody} --command-config {fast} describe --status
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config /nowhere describe --status
kafka-metadata-quorum.sh --bootstrap-server a describe --status
kafka-metadata-quorum.sh --command-config {slow} describe --replication --bootstrap-server {b}
kafka-metadata-quorum.sh --bootstrap-server {b} desc --st
kafka-metadata-quorum.sh --bootstrap-server={b} describe --status --status
kafka-metadata-quorum.sh --boot {b} describe --status
kafka-metadata-quorum.sh --version
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {json}/none.properties add-controller
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {json}/role.properties add-controller
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {json}/nodirs.properties add-controller
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {json}/unformatted.properties add-controller
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {json}/controller.properties add-controller --dry-run
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {json}/nolistener.properties add-controller --dry-run
kafka-metadata-quorum.sh --bootstrap-server {b} --command-config {json}/controller.properties add-controller
"""

CLUSTER = """
kafka-cluster.sh
kafka-cluster.sh --help
kafka-cluster.sh cluster-id --help
kafka-cluster.sh unregister --help
kafka-cluster.sh list-endpoints --help
kafka-cluster.sh cluster-id -b {b}
kafka-cluster.sh cluster-id --bootstrap-server {b} -c /nowhere
kafka-cluster.sh list-endpoints -b {b}
kafka-cluster.sh list-endpoints -b {b} --include-fenced-brokers
kafka-cluster.sh unregister -b {b}
kafka-cluster.sh unregister -b {b} --id 99
kafka-cluster.sh unregister -b {b} --id x
kafka-cluster.sh cluster-id
kafka-cluster.sh foo
kafka-cluster.sh clster-id
kafka-cluster.sh cluster-id -b {nobody} -c {fast}
kafka-cluster.sh list-endpoints -b {nobody} -c {fast}
kafka-cluster.sh unregister -i 3 -b {nobody} -c {fast}
kafka-cluster.sh cluster-id -b {b} -C {b}
kafka-cluster.sh cluster-id -b a
kafka-cluster.sh cluster-id -x
kafka-cluster.sh -v
kafka-cluster.sh cluster-id -b{b}
kafka-cluster.sh cluster-id -b {b} --confg {fast}
"""

FEATURES = """
kafka-features.sh
kafka-features.sh --help
kafka-features.sh describe --help
kafka-features.sh upgrade --help
kafka-features.sh downgrade --help
kafka-features.sh disable --help
kafka-features.sh version-mapping --help
kafka-features.sh feature-dependencies --help
kafka-features.sh --bootstrap-server {b}
kafka-features.sh --bootstrap-server {b} describe
kafka-features.sh --bootstrap-server {b} describe --node-id 1
kafka-features.sh --bootstrap-server {b} version-mapping
kafka-features.sh --bootstrap-server {b} version-mapping --release-version 3.5-IV2
kafka-features.sh --bootstrap-server {b} version-mapping --release-version x
kafka-features.sh --bootstrap-server {b} feature-dependencies
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature group.version=1 --feature kraft.version=1
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature transaction.version=2
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature x=2
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature group.version=77
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature x
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature metadata.version=20
kafka-features.sh --bootstrap-server {b} upgrade
kafka-features.sh --bootstrap-server {b} upgrade --release-version 4.0
kafka-features.sh --bootstrap-server {b} upgrade --release-version 4.0 --dry-run
kafka-features.sh --bootstrap-server {b} upgrade --metadata 3.7
kafka-features.sh --bootstrap-server {b} upgrade --metadata 3.7 --dry-run
kafka-features.sh --bootstrap-server {b} upgrade --feature group.version=9
kafka-features.sh --bootstrap-server {b} upgrade --feature x=1
kafka-features.sh --bootstrap-server {b} upgrade --feature group.version=1 --feature group.version=2
kafka-features.sh --bootstrap-server {b} upgrade --feature group.version=x
kafka-features.sh --bootstrap-server {b} upgrade --feature kraft.version=0 --dry-run
kafka-features.sh --bootstrap-server {b} downgrade --feature group.version=0 --dry-run
kafka-features.sh --bootstrap-server {b} downgrade --metadata 3.3 --dry-run
kafka-features.sh --bootstrap-server {b} downgrade --release-version 3.9 --unsafe --dry-run
kafka-features.sh --bootstrap-server {b} downgrade --metadata 3.3
kafka-features.sh --bootstrap-server {b} disable --feature group.version --dry-run
kafka-features.sh --bootstrap-server {b} disable --feature x
kafka-features.sh --bootstrap-server {b} disable
kafka-features.sh --bootstrap-server {b} upgrade --metadata 3.7 --release-version 3.7
kafka-features.sh --bootstrap-server {b} upgrade --metadata foo
kafka-features.sh --bootstrap-server {nobody} --command-config {fast} describe
kafka-features.sh --bootstrap-server {nobody} --command-config {fast} upgrade --metadata 3.7
kafka-features.sh --bootstrap-server {b} --command-config /nowhere describe
kafka-features.sh --bootstrap-server a describe
kafka-features.sh describe
kafka-features.sh foo
kafka-features.sh --bootstrap-server {b} desc --node-id x
kafka-features.sh --bootstrap-server {b} version-mapping --release-version '3.3-IV3'
kafka-features.sh --bootstrap-server {b} version-mapping --release-version '4.4-IV0'
kafka-features.sh --bootstrap-server {b} version-mapping --release-version '3.9'
kafka-features.sh --bootstrap-server {b} version-mapping --release-version '4.0'
kafka-features.sh --bootstrap-server {b} version-mapping --release-version '4.4'
kafka-features.sh --bootstrap-server {b} version-mapping --release-version ''
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature metadata.version=31
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature eligible.leader.replicas.version=1
kafka-features.sh --bootstrap-server {b} feature-dependencies --feature share.version=2
"""

CONTROLLERS = """
kafka-metadata-quorum.sh --bootstrap-controller {c} describe --status
kafka-metadata-quorum.sh --bootstrap-controller {c} describe --replication
kafka-metadata-quorum.sh --bootstrap-controller {b} describe --status
kafka-metadata-quorum.sh --bootstrap-controller {nobody} --command-config {fast} describe --status
kafka-metadata-quorum.sh --bootstrap-controller a describe --status
kafka-metadata-quorum.sh --bootstrap-controller {c} remove-controller -i 9 -d AAAAAAAAAAAAAAAAAAAAAQ
kafka-metadata-quorum.sh --bootstrap-server {c} describe --status
kafka-cluster.sh cluster-id -C {c}
kafka-cluster.sh cluster-id -C {b}
kafka-cluster.sh list-endpoints -C {c}
kafka-cluster.sh list-endpoints -C {c} --include-fenced-brokers
kafka-cluster.sh list-endpoints -C {b}
kafka-cluster.sh unregister -C {c} --id 99
kafka-cluster.sh unregister -C {nobody} -c {fast} --id 99
kafka-cluster.sh cluster-id -b {c}
kafka-features.sh --bootstrap-controller {c} describe
kafka-features.sh --bootstrap-controller {c} describe --node-id 1
kafka-features.sh --bootstrap-controller {b} describe
kafka-features.sh --bootstrap-controller {c} upgrade --feature group.version=9
kafka-features.sh --bootstrap-controller {c} upgrade --metadata 3.7 --dry-run
kafka-features.sh --bootstrap-controller {c} disable --feature x
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type topics
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type topics --entity-name filled
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type topics --entity-name nosuch
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type topics --entity-name filled --all
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type brokers
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type brokers --entity-name 1
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type brokers --entity-default
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type users
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type groups
kafka-configs.sh --bootstrap-controller {c} --describe --entity-type broker-loggers --entity-name 1
kafka-configs.sh --bootstrap-controller {c} --alter --entity-type topics --entity-name filled --add-config retention.ms=x
kafka-configs.sh --bootstrap-controller {c} --alter --entity-type topics --entity-name {s}-controlled --add-config retention.ms=70000
kafka-configs.sh --bootstrap-controller {c} --alter --entity-type topics --entity-name {s}-controlled --delete-config retention.ms
kafka-configs.sh --bootstrap-controller {c} --alter --entity-type topics --entity-name nosuch --add-config retention.ms=70000
kafka-configs.sh --bootstrap-controller {c} --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.backoff.ms=15001
kafka-configs.sh --bootstrap-controller {c} --alter --entity-type brokers --entity-name 1 --delete-config log.cleaner.backoff.ms
kafka-configs.sh --bootstrap-controller {c} --alter --entity-type brokers --entity-default --add-config log.cleaner.backoff.ms=15001
kafka-configs.sh --bootstrap-controller {c} --alter --entity-type brokers --entity-default --delete-config log.cleaner.backoff.ms
kafka-configs.sh --bootstrap-controller {b} --describe --entity-type topics --entity-name filled
kafka-reassign-partitions.sh --bootstrap-controller {c} --list
kafka-reassign-partitions.sh --bootstrap-controller {b} --list
kafka-reassign-partitions.sh --bootstrap-controller {c} --cancel --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --bootstrap-controller {c} --verify --reassignment-json-file {json}/stay.json
kafka-topics.sh --bootstrap-server {c} --list --command-config {fast}
kafka-features.sh --bootstrap-server {c} describe
kafka-configs.sh --bootstrap-server {c} --describe --entity-type topics --entity-name filled
kafka-log-dirs.sh --bootstrap-server {c} --describe --command-config {fast}
kafka-consumer-groups.sh --bootstrap-server {c} --list --command-config {fast}
kafka-configs.sh --bootstrap-server {nobody} --command-config {fast} --describe --entity-type groups
kafka-configs.sh --bootstrap-controller {nobody} --command-config {fast} --describe --entity-type topics --entity-name filled
kafka-reassign-partitions.sh --bootstrap-controller {c} --execute --reassignment-json-file {json}/stay.json
"""

CONSUMED = """
kafka-console-consumer.sh
kafka-console-consumer.sh --bogus
kafka-console-consumer.sh --version
kafka-console-consumer.sh --bootstrap-server {b}
kafka-console-consumer.sh --topic told
kafka-console-consumer.sh --bootstrap-server {b} --topic told --include x
kafka-console-consumer.sh --bootstrap-server {b} --topic told --offset 3
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --offset -3
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --offset x
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition x
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --offset 3 --from-beginning
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --group x
kafka-console-consumer.sh --bootstrap-server {b} --topic told --from-beginning --command-property auto.offset.reset=latest
kafka-console-consumer.sh --bootstrap-server {b} --topic told --group a --command-property group.id=b
kafka-console-consumer.sh --bootstrap-server {b} --topic told --formatter nosuch
kafka-console-consumer.sh --bootstrap-server {b} --topic told --max-messages x
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms x
kafka-console-consumer.sh --bootstrap-server {b} --topic told --isolation-level x --timeout-ms 1000
kafka-console-consumer.sh --bootstrap-server {b} --topic told --command-property x --timeout-ms 1000
kafka-console-consumer.sh --bootstrap-server {b} --topic told --formatter-property x --timeout-ms 1000
kafka-console-consumer.sh --bootstrap-server {b} --topic told --command-config /nowhere
kafka-console-consumer.sh --bootstrap-server a --topic told --timeout-ms 1000
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --offset 3 --max-messages 7 --timeout-ms 60000
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 3
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 3 --formatter-property print.key=true --formatter-property print.timestamp=true --formatter-property print.offset=true --formatter-property print.partition=true --formatter-property print.headers=true --formatter-property print.epoch=true --formatter-property print.delivery=true
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --property print.key=true
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --consumer-property client.id=x
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.LoggingMessageFormatter
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --value-deserializer org.apache.kafka.common.serialization.LongDeserializer
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --value-deserializer nosuch
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --value-deserializer org.apache.kafka.common.serialization.StringDeserializer --key-deserializer org.apache.kafka.common.serialization.ShortDeserializer --formatter-property print.key=true
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic nosuchtopic --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {nobody} --topic told --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 77 --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --offset 10000 --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --enable-systest-events
kafka-console-consumer.sh --help
kafka-console-consumer.sh --bootstrap-server {b} --topic told --group {s}-readers --from-beginning --max-messages 10 --timeout-ms 60000
kafka-console-consumer.sh --bootstrap-server {b} --topic told --group {s}-readers --from-beginning --timeout-ms 1000
kafka-console-consumer.sh --bootstrap-server {b} --topic told --group {s}-few --from-beginning --max-messages 4
kafka-console-consumer.sh --bootstrap-server {b} --topic told --group {s}-nowhere --timeout-ms 60000 --command-property auto.offset.reset=none
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --timeout-ms 1000 --command-property auto.offset.reset=none
kafka-console-consumer.sh --bootstrap-server {b} --topic told --group {s}-few --from-beginning --max-messages 2
kafka-consumer-groups.sh --bootstrap-server {b} --describe --group {s}-few
kafka-console-consumer.sh --bootstrap-server {b} --include 'tol.*|nosuch' --from-beginning --max-messages 10 --timeout-ms 60000
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter-property print.value=false --formatter-property print.key=true --formatter-property line.separator=;
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 3 --skip-message-on-error --value-deserializer org.apache.kafka.common.serialization.LongDeserializer
kafka-console-consumer.sh --bootstrap-server {b} --topic numbers --partition 0 --from-beginning --max-messages 5 --value-deserializer org.apache.kafka.common.serialization.DoubleDeserializer
kafka-console-consumer.sh --bootstrap-server {b} --topic __consumer_offsets --partition {place} --from-beginning --max-messages 1 --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
kafka-console-consumer.sh --bootstrap-server {b} --topic __consumer_offsets --partition {place} --from-beginning --timeout-ms 1500 --formatter org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter
kafka-console-consumer.sh --bootstrap-server {b} --topic told --max-messages 10 --timeout-ms 60000 --command-property auto.offset.reset=by_duration:P9999D
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500 --command-property auto.offset.reset=by_duration:PT1S
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500 --command-property auto.offset.reset=by_duration:P1
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500 --command-property auto.offset.reset=by_duration:-P1D
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500 --command-property auto.offset.reset=BY_DURATION:P1D
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500 --command-property auto.offset.reset=EARLIEST
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500 --command-property auto.offset.reset=''
kafka-console-consumer.sh --bootstrap-server {b} --topic '' --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic ' ' --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic '' --partition 0 --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --include '' --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --include nosuch.* --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --group '' --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --command-property group.id= --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --value-deserializer org.apache.kafka.common.serialization.VoidDeserializer
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --value-deserializer org.apache.kafka.common.serialization.ByteBufferDeserializer
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --skip-message-on-error --value-deserializer org.apache.kafka.common.serialization.VoidDeserializer
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter ''
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.CoordinatorRecordMessageFormatter
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter org.apache.kafka.common.MessageFormatter
kafka-console-consumer.sh --bootstrap-server {b} --topic told --topic numbers --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --include a --include told --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --bootstrap-server {b} --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --group a --group b --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --partition 0
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --offset 1 --offset 1
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --max-messages 2
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500 --timeout-ms 1500
kafka-console-consumer.sh --bootstrap-server {b} --topic told --timeout-ms 1500 --isolation-level read_committed --isolation-level read_committed
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter a --formatter b
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --key-deserializer a --key-deserializer b
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --value-deserializer a --value-deserializer b
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --formatter-config a --formatter-config b
kafka-console-consumer.sh --bootstrap-server {b} --topic told --partition 0 --from-beginning --max-messages 2 --command-config a --command-config b
"""

PRODUCED = """
kafka-console-producer.sh
kafka-console-producer.sh --version
kafka-console-producer.sh --topic a
kafka-console-producer.sh --bootstrap-server {b}
kafka-console-producer.sh --bootstrap-server a --topic x
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --reader-property parse.key=true
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --property parse.key=true --property key.separator=:
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --reader-property parse.headers=true --reader-property parse.key=true --reader-property ignore.error=true
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --reader-property headers.delimiter=, --reader-property parse.headers=true
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --sync
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --compression-codec
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --compression-codec foo
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --request-required-acks 7
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --request-required-acks 0
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --line-reader nosuch
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --batch-size x
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-config /nowhere
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property foo
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --producer-property client.id=foo
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --producer-property client.id=foo --command-property x=y
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --property a=b --reader-property x=y
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property max.in.flight.requests.per.connection=6
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property max.in.flight.requests.per.connection=6 --command-property enable.idempotence=true
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property max.in.flight.requests.per.connection=0
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property max.in.flight.requests.per.connection=x
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property delivery.timeout.ms=100
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property delivery.timeout.ms=-1
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property enable.idempotence=true --request-required-acks 1
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property enable.idempotence=true --command-property retries=0
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property enable.idempotence=true --message-send-max-retries 0
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property enable.idempotence=x
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property transactional.id=a --command-property enable.idempotence=false
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property linger.ms=-1
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property max.request.size=-1
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --command-property buffer.memory=-1
kafka-console-producer.sh --bootstrap-server {b} --topic 'bad topic'
kafka-console-producer.sh --bootstrap-server {nobody} --topic {s}-sent --max-block-ms 1500
kafka-console-producer.sh --bootstrap-server {nobody} --topic {s}-sent --max-block-ms 1500 --sync
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-sent --reader-config /nowhere
kafka-console-producer.sh --help
kafka-console-consumer.sh --bootstrap-server {b} --topic {s}-sent --from-beginning --timeout-ms 2000 --formatter-property print.key=true --formatter-property print.headers=true --formatter-property print.offset=true
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --max-partition-memory-bytes 100
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --max-partition-memory-bytes 100 --property a=b --producer.config /nowhere
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --max-partition-memory-bytes 100 --max-partition-memory-bytes 100
kafka-console-producer.sh --bootstrap-server x --topic {s}-twice --max-partition-memory-bytes 100 --property a=b
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --topic 1 --topic 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --bootstrap-server 1 --bootstrap-server 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --batch-size 1 --batch-size 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --compression-codec 1 --compression-codec 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --line-reader 1 --line-reader 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --max-block-ms 1 --max-block-ms 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --max-memory-bytes 1 --max-memory-bytes 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --message-send-max-retries 1 --message-send-max-retries 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --metadata-expiry-ms 1 --metadata-expiry-ms 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --producer.config 1 --producer.config 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --command-config 1 --command-config 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --reader-config 1 --reader-config 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --request-required-acks 1 --request-required-acks 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --request-timeout-ms 1 --request-timeout-ms 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --retry-backoff-ms 1 --retry-backoff-ms 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --socket-buffer-size 1 --socket-buffer-size 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --timeout 1 --timeout 2
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --sync --sync
kafka-console-producer.sh --bootstrap-server {b} --topic ''
kafka-console-producer.sh --bootstrap-server {b} --topic ' ' --max-block-ms 1500
kafka-console-producer.sh --bootstrap-server {b} --topic {s}-twice --request-timeout-ms -1
"""

STORAGE = """
kafka-storage.sh
kafka-storage.sh --help
kafka-storage.sh info --help
kafka-storage.sh format --help
kafka-storage.sh version-mapping --help
kafka-storage.sh feature-dependencies --help
kafka-storage.sh random-uuid --help
kafka-storage.sh foo
kafka-storage.sh version-mapping
kafka-storage.sh version-mapping --release-version 3.9
kafka-storage.sh version-mapping --release-version x
kafka-storage.sh feature-dependencies --feature eligible.leader.replicas.version=1
kafka-storage.sh feature-dependencies --feature metadata.version=40
kafka-storage.sh feature-dependencies --feature foo=1
kafka-storage.sh feature-dependencies
kafka-storage.sh info
kafka-storage.sh info -c /nowhere
kafka-storage.sh format -t x
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c /nowhere
kafka-storage.sh info -c {json}/{s}-static.properties
kafka-storage.sh info -c {json}/{s}-noid.properties
kafka-storage.sh format -c {json}/{s}-static.properties
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-noid.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static.properties --ignore-formatted --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAg -c {json}/{s}-static.properties --ignore-formatted --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh info -c {json}/{s}-static.properties
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static2.properties --standalone --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static2.properties --no-initial-controllers --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-alone.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-alone.properties --standalone --feature kraft.version=0 --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-alone.properties --standalone --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh info -c {json}/{s}-alone.properties
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-first.properties --standalone --no-initial-controllers
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-first.properties --initial-controllers 1@localhost:1 --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-first.properties --initial-controllers 1@localhost:9093:AAAAAAAAAAAAAAAAAAAAAw --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-member.properties --initial-controllers 5@localhost:9093:AAAAAAAAAAAAAAAAAAAAAw --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-broker.properties --standalone --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-broker.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static3.properties --release-version x
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static3.properties --feature foo=1
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static3.properties --feature group.version=7
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static3.properties --feature metadata.version=3
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static3.properties --feature x
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static3.properties --feature metadata.version=25 --release-version 4.0-IV3
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-static3.properties --feature kraft.version=1 --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
"""

STORAGE_REFUSED = """
kafka-storage.sh info -c {json}/{s}-norole.properties
kafka-storage.sh info -c {json}/{s}-zookeeper.properties
kafka-storage.sh info -c {json}/{s}-emptyrole.properties
kafka-storage.sh info -c {json}/{s}-strangerole.properties
kafka-storage.sh info -c {json}/{s}-emptydirs.properties
kafka-storage.sh info -c {json}/{s}-besides.properties
kafka-storage.sh info -c {json}/{s}-gap.properties
kafka-storage.sh info -c {json}/{s}-twoids.properties
kafka-storage.sh info -c {json}/{s}-oldid.properties
kafka-storage.sh info -c {json}/{s}-novoters.properties
kafka-storage.sh info -c {json}/{s}-nonames.properties
kafka-storage.sh info -c {json}/{s}-nolistener.properties
kafka-storage.sh info -c {json}/{s}-oneport.properties
kafka-storage.sh info -c {json}/{s}-noint.properties
kafka-storage.sh info -c {json}/{s}-low.properties
kafka-storage.sh info -c {json}/{s}-nobool.properties
kafka-storage.sh info -c {json}/{s}-strnode.properties
kafka-storage.sh info -c {json}/{s}-emptymeta.properties
kafka-storage.sh info -c {json}/{s}-blankmeta.properties
kafka-storage.sh info -c {json}/{s}-votes.properties
kafka-storage.sh info -c {json}/{s}-votestwice.properties
kafka-storage.sh info -c {json}/{s}-votesmany.properties
kafka-storage.sh info -c {json}/{s}-manyroles.properties
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-zookeeper.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-emptydirs.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-besides.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-oneport.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-oldid.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-votestwice.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh format -t AAAAAAAAAAAAAAAAAAAAAQ -c {json}/{s}-manyroles.properties --release-version 4.0-IV3 --feature group.version=0 --feature transaction.version=0
kafka-storage.sh info -c {json}/{s}-manyroles.properties
"""

PERFORMANCE = """
kafka-consumer-perf-test.sh
kafka-consumer-perf-test.sh --bootstrap-server {b}
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 5
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --messages 5
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 5 --hide-header
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 5 --show-detailed-stats
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 500 --timeout 1000
kafka-consumer-perf-test.sh --bootstrap-server {b} --include time.* --num-records 5
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records x
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 5 --date-format x
kafka-consumer-perf-test.sh --bootstrap-server {nobody} --topic timed --num-records 5 --timeout 1000
kafka-consumer-perf-test.sh --help
kafka-consumer-perf-test.sh --topic a --num-records 4
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic a --num-records 4 --messages 5
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 4 --reporting-interval 0
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 4 --consumer.config /nowhere
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 4 --consumer.config /nowhere --command-config /nowhere
kafka-consumer-perf-test.sh --bootstrap-server a --topic timed --num-records 4
kafka-consumer-perf-test.sh --bogus
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 4 --group ''
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic '' --num-records 4
kafka-consumer-perf-test.sh --bootstrap-server {b} --include '' --num-records 4
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --topic timed --num-records 4
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 4 --num-records 4
kafka-consumer-perf-test.sh --bootstrap-server {b} --topic timed --num-records 4 --timeout 1 --timeout 2
"""

PRODUCER_PERFORMANCE = """
kafka-producer-perf-test.sh
kafka-producer-perf-test.sh --help
kafka-producer-perf-test.sh --bogus
kafka-producer-perf-test.sh --topic sent
kafka-producer-perf-test.sh --num-records x
kafka-producer-perf-test.sh --topic
kafka-producer-perf-test.sh --topic sent --num-records 1 --throughput 10
kafka-producer-perf-test.sh --topic sent --num-records 1 --record-size 1
kafka-producer-perf-test.sh --topic sent --num-records 1 --throughput 10 --record-size 1
kafka-producer-perf-test.sh --topic sent --num-records 1 --throughput 10 --record-size 1 word
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput -1 --record-size 10
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 1000 --record-size 10 --warmup-records 2
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 1e3 --payload-monotonic
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 4 --throughput -1 --payload-file {json}/payloads
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 4 --throughput -1 --payload-file {json}/payloads --payload-delimiter ,
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 4 --throughput -1 --payload-file {json}/newline
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 4 --throughput -1 --payload-file {json}/nothing
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 4 --throughput -1 --payload-file /nowhere
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property acks=1 linger.ms=1
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --producer-props acks=0
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --producer.config {slow}
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-config {slow}
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-config /nowhere
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-config {slow} --producer.config {slow}
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property a=b --producer-props a=b
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property acks
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property acks=2
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property a=b=c
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property compression.type=x
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property linger.ms=x
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property compression.type=gzip
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property delivery.timeout.ms=100
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property max.in.flight.requests.per.connection=9 enable.idempotence=true
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property enable.idempotence=x
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 2000000
kafka-producer-perf-test.sh --topic absent --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property max.block.ms=1000
kafka-producer-perf-test.sh --topic 'no/such' --bootstrap-server {b} --num-records 2 --throughput -1 --record-size 10 --command-property max.block.ms=1000
kafka-producer-perf-test.sh --topic sent --bootstrap-server {nobody} --num-records 1 --throughput -1 --record-size 10 --command-property max.block.ms=1000
kafka-producer-perf-test.sh --topic sent --bootstrap-server a --num-records 2 --throughput -1 --payload-monotonic
kafka-producer-perf-test.sh --topic sent --command-property bootstrap.servers={b} --num-records 2 --throughput -1 --payload-monotonic
kafka-producer-perf-test.sh --topic sent --command-property x=y --num-records 2 --throughput -1 --payload-monotonic
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput x --record-size 10
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput -1.5 --record-size 10
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 2 --throughput=-1.5 --record-size 10
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 0 --throughput 10 --payload-monotonic
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 10 --payload-monotonic --warmup-records 5
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput -1 --payload-monotonic --warmup-records -5
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 10 --record-size 0
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 10 --record-size x
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 10 --record-size 5 --payload-monotonic
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 10 --payload-file {json}/payloads --record-size 5
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 10 --record-size 5 --transaction-duration-ms 0
kafka-producer-perf-test.sh --topic sent --bootstrap-server {b} --num-records 5 --throughput 10 --record-size 5 --reporting-interval 0
kafka-producer-perf-test.sh --topic sent --num-records 5 --throughput 10 --record-size 5 --print
kafka-producer-perf-test.sh --topic sent --num-records 5 --throughput 10 --pay
"""

VERIFIABLE_PRODUCER = """
kafka-verifiable-producer.sh
kafka-verifiable-producer.sh --help
kafka-verifiable-producer.sh --bogus
kafka-verifiable-producer.sh --topic sent
kafka-verifiable-producer.sh --bootstrap-server {b}
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --acks 2
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --acks all
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages x
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 3
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 0
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 3 --acks 1 --value-prefix 7
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 3 --acks 0 --repeating-keys 2
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 3 --throughput 100 --message-create-time 1700000000000
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 2 --command-config {slow}
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 2 --producer.config {slow}
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 2 --command-config /nowhere
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 2 --producer.config /nowhere
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 2 --producer.config {slow} --command-config {slow}
kafka-verifiable-producer.sh --topic absent --bootstrap-server {b} --max-messages 2 --command-config {fast}
kafka-verifiable-producer.sh --topic 'no/such' --bootstrap-server {b} --max-messages 2 --command-config {fast}
kafka-verifiable-producer.sh --topic sent --bootstrap-server {nobody} --max-messages 1 --command-config {fast}
kafka-verifiable-producer.sh --topic sent --bootstrap-server a --max-messages 2
kafka-verifiable-producer.sh --topic sent --bootstrap-server '' --max-messages 2
kafka-verifiable-producer.sh --topic sent --bootstrap-server {b} --max-messages 2 word
"""

VERIFIABLE_CONSUMER = """
kafka-verifiable-consumer.sh
kafka-verifiable-consumer.sh --help
kafka-verifiable-consumer.sh --bogus
kafka-verifiable-consumer.sh --topic told
kafka-verifiable-consumer.sh --topic witnessed --group-id a
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b}
kafka-verifiable-consumer.sh --group-id a --bootstrap-server {b}
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-few --max-messages 5
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-few --max-messages 5 --verbose
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-all --max-messages 10 --verbose
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-auto --max-messages 10 --enable-autocommit
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-none --max-messages 0
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-rr --max-messages 3 --assignment-strategy org.apache.kafka.clients.consumer.RoundRobinAssignor
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-cs --max-messages 3 --assignment-strategy org.apache.kafka.clients.consumer.CooperativeStickyAssignor
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-static --group-instance-id one --max-messages 3 --session-timeout 10000
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages x
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --session-timeout x
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --session-timeout 1
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --reset-policy x
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --reset-policy none
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --group-protocol x
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --assignment-strategy x
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-cfg --max-messages 3 --command-config {quick}
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-old --max-messages 3 --consumer.config {quick}
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --consumer.config /nowhere
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --command-config /nowhere
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --command-config {quick} --consumer.config {quick}
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server a --group-id {s}-x --max-messages 3
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server '' --group-id {s}-x --max-messages 3
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id '' --max-messages 3
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-x --max-messages 3 --verbose=yes
kafka-verifiable-consumer.sh --topic '' --bootstrap-server {b} --group-id {s}-ago --max-messages 3
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-ago --max-messages 3 --reset-policy by_duration:P9999D
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-ago --max-messages 3 --reset-policy by_duration:x
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id {s}-ago --max-messages 3 --reset-policy LATEST
kafka-verifiable-consumer.sh --topic witnessed --bootstrap-server {b} --group-id ' ' --max-messages 3
"""

TOPICS_IN_ZOOKEEPER = """
kafka-topics.sh --zookeeper {z}
kafka-topics.sh --zookeeper {z} --list --bogus
kafka-topics.sh --zookeeper {z} --list --bootstrap-server {b}
kafka-topics.sh --zookeeper {z} --list
kafka-topics.sh --zookeeper {z} --create
kafka-topics.sh --zookeeper {z} --create --topic a
kafka-topics.sh --zookeeper {z} --create --topic {s}-hand --replica-assignment 1:2,2:3 --config retention.ms=5000 --config cleanup.policy=compact
kafka-topics.sh --zookeeper {z} --create --topic {s}-hand --replica-assignment 1:2,2:3
kafka-topics.sh --zookeeper {z} --create --topic {s}-hand --if-not-exists --replica-assignment 1:2,2:3
kafka-topics.sh --zookeeper {z} --create --topic {s}_a.b --partitions 2 --replication-factor 2
kafka-topics.sh --zookeeper {z} --create --topic {s}.a_b --partitions 2 --replication-factor 2
kafka-topics.sh --zookeeper {z} --create --topic x --partitions 2 --replication-factor 4
kafka-topics.sh --zookeeper {z} --create --topic x --partitions 0 --replication-factor 1
kafka-topics.sh --zookeeper {z} --create --topic x --partitions 1 --replication-factor 0
kafka-topics.sh --zookeeper {z} --create --topic a/b --partitions 1 --replication-factor 1
kafka-topics.sh --zookeeper {z} --create --topic '' --partitions 1 --replication-factor 1
kafka-topics.sh --zookeeper {z} --create --topic .. --partitions 1 --replication-factor 1
kafka-topics.sh --zookeeper {z} --create --topic x --partitions 1 --replication-factor 1 --config a=b
kafka-topics.sh --zookeeper {z} --create --topic x --partitions 1 --replication-factor 1 --config a
kafka-topics.sh --zookeeper {z} --create --topic x --partitions 1 --replication-factor 1 --config retention.ms=x
kafka-topics.sh --zookeeper {z} --list --exclude-internal
kafka-topics.sh --zookeeper {z} --list --topic {s}.*
kafka-topics.sh --zookeeper {z} --list --topic '('
kafka-topics.sh --zookeeper {z} --list --config a=b
kafka-topics.sh --zookeeper {z} --create --topic a --partitions 1 --replication-factor 1 --delete-config a
kafka-topics.sh --zookeeper {z} --describe --topics-with-overrides --unavailable-partitions
kafka-topics.sh --zookeeper {z} --describe --under-replicated-partitions --unavailable-partitions
kafka-topics.sh --zookeeper {z} --create --topic a --replica-assignment 1 --partitions 1
kafka-topics.sh --zookeeper {z} --describe --if-exists
kafka-topics.sh --zookeeper {z} --delete --topic a --exclude-internal
kafka-topics.sh --zookeeper {z} --create --topic a --if-exists --partitions 1 --replication-factor 1
kafka-topics.sh --zookeeper {z} --list --if-not-exists
kafka-topics.sh --zookeeper {z} --alter --topic __consumer_offsets --partitions 9
kafka-topics.sh --zookeeper {z} --delete --topic __consumer_offsets
kafka-topics.sh --zookeeper {z} --create --topic {s}-hand --partitions x --replication-factor 1
kafka-topics.sh --zookeeper {z} --create --topic x --replica-assignment 1:2,2:3 --config retention.ms=-5
kafka-topics.sh --zookeeper {z} --create --topic x --replica-assignment 1:1
kafka-topics.sh --zookeeper {z} --create --topic x --replica-assignment a
kafka-topics.sh --zookeeper {z} --list
kafka-topics.sh --zookeeper {z} --describe
kafka-topics.sh --zookeeper {z} --describe --topic {s}-hand
kafka-topics.sh --zookeeper {z} --describe --topic nosuch
kafka-topics.sh --zookeeper {z} --describe --topic nosuch --if-exists
kafka-topics.sh --zookeeper {z} --describe --topics-with-overrides
kafka-topics.sh --zookeeper {z} --describe --under-replicated-partitions
kafka-topics.sh --zookeeper {z} --describe --unavailable-partitions
kafka-topics.sh --zookeeper {z} --describe --at-min-isr-partitions
kafka-topics.sh --zookeeper {z} --alter --topic {s}-hand --config retention.ms=7000 --delete-config cleanup.policy
kafka-topics.sh --zookeeper {z} --alter --topic {s}-hand --partitions 4
kafka-topics.sh --zookeeper {z} --alter --topic {s}-hand --partitions 4
kafka-topics.sh --zookeeper {z} --alter --topic {s}-hand --partitions 5 --replica-assignment 1:2,2:3,2:3,2:3,3:1
kafka-topics.sh --zookeeper {z} --alter --topic nosuch --partitions 6
kafka-topics.sh --zookeeper {z} --describe --topic {s}-hand
kafka-topics.sh --zookeeper {z} --delete --topic nosuch
kafka-topics.sh --zookeeper {z} --delete --topic {s}-hand
"""

PREFERRED_IN_ZOOKEEPER = """
kafka-preferred-replica-election.sh
kafka-preferred-replica-election.sh --help
kafka-preferred-replica-election.sh --zookeeper {z} --bogus
kafka-preferred-replica-election.sh --path-to-json-file {json}/led.json
kafka-preferred-replica-election.sh --zookeeper {z} --bootstrap-server {b}
kafka-preferred-replica-election.sh --zookeeper {z} --path-to-json-file {json}/no.json
kafka-preferred-replica-election.sh --zookeeper {z} --path-to-json-file {json}/nled.json
kafka-preferred-replica-election.sh --zookeeper {z} --path-to-json-file {json}/twice.json
kafka-preferred-replica-election.sh --zookeeper {z} --path-to-json-file {json}/far.json
kafka-preferred-replica-election.sh --zookeeper {z} --path-to-json-file {json}/led.json
kafka-preferred-replica-election.sh --zookeeper {z} --path-to-json-file /nowhere
kafka-preferred-replica-election.sh --zookeeper {z}
"""
