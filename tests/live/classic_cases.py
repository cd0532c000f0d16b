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
kafka-topics.sh --list --topic {s}.* --bootstrap-server {b}
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
