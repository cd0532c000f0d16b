"""More command lines of Kafka 2.8.2's tools, for the ZooKeeper plane. How they are run: test_classic_zookeeper.py."""

# ruff: noqa: E501  # a case is a line

from __future__ import annotations

CONFIGS = """
kafka-configs.sh --zookeeper {z} --describe --entity-type topics
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config retention.ms=50.500,cleanup.policy=[compact,delete]
kafka-configs.sh --zookeeper {z} --describe --topic {s}-told
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config foo=1,bar=2
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config retention.ms=x
kafka-configs.sh --zookeeper {z} --alter --topic nosuch --add-config retention.ms=5
kafka-configs.sh --zookeeper {z} --alter --topic 'a b' --add-config retention.ms=5
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config message.format.version=0.10.0
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config message.format.version=x
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --delete-config a,b
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --add-config a=1
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --add-config a=1,b=2,c=3,d=4,e=5,f=6
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --add-config producer_byte_rate=x
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --add-config producer_byte_rate=5.5
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --add-config request_percentage=x
kafka-configs.sh --zookeeper {z} --alter --user '{s}-user=a b' --add-config request_percentage=50.5,producer_byte_rate=1000
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --client {s}-client --add-config request_percentage=50.5
kafka-configs.sh --zookeeper {z} --alter --client {s}-client --user-defaults --add-config request_percentage=50.5
kafka-configs.sh --zookeeper {z} --alter --client-defaults --add-config request_percentage=50.5
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --client {s}-client --add-config SCRAM-SHA-256=[password=a]
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --add-config SCRAM-SHA-512=[iterations=10,password=a]
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --add-config SCRAM-SHA-512=[iterations=99999999999,password=a]
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --add-config SCRAM-SHA-512=a
kafka-configs.sh --zookeeper {z} --describe --entity-type users
kafka-configs.sh --zookeeper {z} --describe --entity-type clients
kafka-configs.sh --zookeeper {z} --describe --entity-type users --entity-type clients
kafka-configs.sh --zookeeper {z} --describe --user {s}-user --entity-type clients
kafka-configs.sh --zookeeper {z} --describe --entity-type users --entity-name {s}-user --entity-type clients
kafka-configs.sh --zookeeper {z} --describe --entity-type clients --entity-type users --entity-name {s}-user
kafka-configs.sh --zookeeper {z} --describe --user nosuch
kafka-configs.sh --zookeeper {z} --alter --broker 1 --add-config log.cleaner.threads=2
kafka-configs.sh --zookeeper {z} --alter --broker 1 --add-config log.cleaner.threads=2,background.threads=4,a=1,b=2,c=3
kafka-configs.sh --zookeeper {z} --alter --broker-defaults --add-config log.cleaner.threads=2
kafka-configs.sh --zookeeper {z} --alter --broker 1 --add-config leader.replication.throttled.rate=1000
kafka-configs.sh --zookeeper {z} --alter --broker 1 --add-config leader.replication.throttled.rate=-1
kafka-configs.sh --zookeeper {z} --alter --broker 1 --add-config leader.replication.throttled.rate=x
kafka-configs.sh --zookeeper {z} --describe --entity-type brokers
kafka-configs.sh --zookeeper {z} --describe --broker 1
kafka-configs.sh --zookeeper {z} --describe --broker x
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config log.cleaner.threads=2
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config zookeeper.connect=x
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config foo=x
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config log.cleaner.threads=x
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config ssl.keystore.password=x
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config listener.name.a.ssl.keystore.password=x
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config ssl.keystore.location=x
kafka-configs.sh --zookeeper {z} --alter --ip {ip} --add-config connection_creation_rate=5
kafka-configs.sh --zookeeper {z} --alter --ip {ip} --add-config connection_creation_rate=-5
kafka-configs.sh --zookeeper {z} --alter --ip-defaults --add-config connection_creation_rate=5
kafka-configs.sh --zookeeper {z} --alter --ip {ip} --add-config producer_byte_rate=5
kafka-configs.sh --zookeeper {z} --describe --entity-type ips
kafka-configs.sh --zookeeper {z} --describe --entity-type topics --all
kafka-configs.sh --zookeeper {z} --describe --entity-type broker-loggers
kafka-configs.sh --zookeeper {z} --alter --user {s}-user --client {s}-client --user-defaults --add-config a=b
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told
kafka-configs.sh --zookeeper {z} --alter --entity-type topics --add-config a=b
kafka-configs.sh --zookeeper {z} --alter --entity-type users --add-config a=b
kafka-configs.sh --zookeeper {z} --alter --entity-type users --entity-name x --entity-type clients --add-config a=b
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config a
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config a=b --add-config-file /nowhere
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config-file /nowhere
kafka-configs.sh --zookeeper {z} --bootstrap-server {b} --describe --topic {s}-told
kafka-configs.sh --zookeeper {z} --describe --entity-type things
kafka-configs.sh --zookeeper {z} --describe --entity-type topics --entity-type brokers
kafka-configs.sh --zookeeper {z} --describe --entity-type topics --entity-type topics
kafka-configs.sh --zookeeper {z} --describe
kafka-configs.sh --zookeeper {z} --describe --entity-type topics --topic {s}-told
kafka-configs.sh --zookeeper {z} --describe --entity-type topics --entity-default
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --delete-config retention.ms
kafka-configs.sh --zookeeper {z} --describe --topic {s}-told
kafka-configs.sh --zookeeper {z}
kafka-configs.sh --zookeeper {z} --bogus
kafka-configs.sh --zookeeper {z} --describe --alter --topic a
kafka-configs.sh --zookeeper {z} --describe --topic a --add-config b=c
kafka-configs.sh --zookeeper {z} --alter --user '{s}-größe' --add-config consumer_byte_rate=99999999999
kafka-configs.sh --zookeeper {z} --alter --user '{s}-größe' --add-config consumer_byte_rate=99999999999999999999
kafka-configs.sh --zookeeper {z} --describe --user '{s}-größe'
kafka-configs.sh --zookeeper {z} --alter --user '{s}-größe' --delete-config consumer_byte_rate
kafka-configs.sh --zookeeper {z} --alter --user '{s}-größe' --delete-config consumer_byte_rate
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config retention.ms=7000 --delete-config retention.ms
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config message.downconversion.enable=x
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config message.timestamp.difference.max.ms=-1
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config message.timestamp.difference.max.ms=1
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config remote.storage.enable=true
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config-file {json}/settings.properties
kafka-configs.sh --zookeeper {z} --describe --topic {s}-told
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config a=
kafka-configs.sh --zookeeper {z} --alter --topic {s}-told --add-config ''
kafka-configs.sh --zookeeper {z} --alter --ip nosuch.invalid --add-config connection_creation_rate=5
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config ssl.keystore.type=x,ssl.keystore.key=y,zookeeper.connect=z
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --add-config password.encoder.secret=x
kafka-configs.sh --zookeeper {z} --alter --broker {nine} --delete-config foo
kafka-configs.sh --zookeeper {z} --alter --broker-defaults --add-config leader.replication.throttled.rate=1000000
kafka-configs.sh --zookeeper {z} --describe --broker-defaults
kafka-configs.sh --zookeeper {z} --describe --client-defaults
kafka-configs.sh --zookeeper {z} --describe --entity-type users --entity-default --entity-type clients
"""

REASSIGNMENTS = """
kafka-reassign-partitions.sh --zookeeper {z}
kafka-reassign-partitions.sh --zookeeper {z} --bogus
kafka-reassign-partitions.sh --zookeeper {z} --verify --execute
kafka-reassign-partitions.sh --zookeeper {z} --list
kafka-reassign-partitions.sh --zookeeper {z} --cancel --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --zookeeper {z} --verify
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 1
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/stay.json --timeout 5
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/stay.json --additional
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/stay.json --throttle x
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/stay.json --preserve-throttles
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file /nowhere
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/no.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/empty.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/half.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/list.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/object.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/notopic.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/text.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/version.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/textversion.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/noreplicas.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/movetwice.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/samebroker.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/dirs.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/elsewhere.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/ninth.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/nosuch.json
kafka-reassign-partitions.sh --zookeeper {z} --execute --reassignment-json-file {json}/many.json
kafka-reassign-partitions.sh --zookeeper {z} --verify --reassignment-json-file {json}/elsewhere.json
kafka-reassign-partitions.sh --zookeeper {z} --verify --reassignment-json-file {json}/nosuch.json
kafka-reassign-partitions.sh --zookeeper {z} --verify --reassignment-json-file {json}/ninth.json
kafka-reassign-partitions.sh --zookeeper {z} --verify --reassignment-json-file {json}/many.json
kafka-reassign-partitions.sh --zookeeper {z} --verify --reassignment-json-file {json}/stay.json
kafka-reassign-partitions.sh --zookeeper {z} --verify --reassignment-json-file {json}/stay.json --preserve-throttles
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 1,x --topics-to-move-json-file {json}/listed.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 1,1,2 --topics-to-move-json-file {json}/listed.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 1 --topics-to-move-json-file {json}/listed.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 9 --topics-to-move-json-file {json}/listed.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 1,2 --topics-to-move-json-file {json}/topicstwice.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 1,2 --topics-to-move-json-file {json}/notopics.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 1,2 --topics-to-move-json-file {json}/no.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 1,2 --topics-to-move-json-file {json}/version.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 3 --topics-to-move-json-file {json}/alone.json
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 3 --topics-to-move-json-file {json}/alone.json --disable-rack-aware
kafka-reassign-partitions.sh --zookeeper {z} --generate --broker-list 3 --topics-to-move-json-file {json}/alone.json --throttle 5
"""

PREFERRED_AT_BROKERS = """
kafka-preferred-replica-election.sh --bootstrap-server {b} --admin.config /nowhere
kafka-preferred-replica-election.sh --bootstrap-server {b} --admin.config {json}/client.properties --path-to-json-file {json}/led.json
kafka-preferred-replica-election.sh --bootstrap-server {b} --path-to-json-file {json}/led.json
kafka-preferred-replica-election.sh --bootstrap-server {b} --path-to-json-file {json}/far.json
kafka-preferred-replica-election.sh --bootstrap-server {b} --path-to-json-file {json}/twice.json
kafka-preferred-replica-election.sh --bootstrap-server {b} --path-to-json-file {json}/none.json
kafka-preferred-replica-election.sh --bootstrap-server {b} --path-to-json-file {json}/strangers.json
kafka-preferred-replica-election.sh --bootstrap-server {b} --path-to-json-file /nowhere
kafka-preferred-replica-election.sh --bootstrap-server a
kafka-preferred-replica-election.sh --bootstrap-server {b}
kafka-preferred-replica-election.sh --zookeeper {z} --admin.config {json}/client.properties
"""
