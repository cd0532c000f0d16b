"""The protocol's table: every api key that Moldau knows, its module, versions and first flexible version.

What a broker *advertises* is another list (moldau/broker/api): nothing is advertised that does not answer. Modules are
imported on first use, so a process pays only for the requests it meets. Source: protocol guide, Kafka 4.2.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from moldau.model.named import NamedTuple
from moldau.wire.schema import Message, Request


class Api(NamedTuple):
    """One request: ``flexible`` is the first version with compact types and tagged fields, None for never."""

    key: int
    name: str
    module: str
    low: int
    high: int
    flexible: int | None

    @property
    def request(self) -> type[Request[Message]]:
        found = _REQUESTS.get(self.key)
        if found is None:
            found = _REQUESTS[self.key] = cast("type[Request[Message]]", _message(self.module, f"{self.name}Request"))
        return found

    @property
    def response(self) -> type[Message]:
        return _message(self.module, f"{self.name}Response")

    def request_header(self, version: int) -> int:
        """Version of the request header: 2 when flexible (KIP-482), 0 for the oldest ControlledShutdown, else 1."""
        if self.key == 7 and version == 0:
            return 0
        return 2 if self.flexible is not None and version >= self.flexible else 1

    def response_header(self, version: int) -> int:
        """Version of the response header. ApiVersions is always 0: a client reads it before it knows us (KIP-511)."""
        return 1 if self.key != 18 and self.flexible is not None and version >= self.flexible else 0


_REQUESTS: dict[int, type[Request[Message]]] = {}
"""The requests that were looked up already: every request asks for its class."""


def _message(module: str, name: str) -> type[Message]:
    return getattr(import_module(f"moldau.wire.messages.{module}"), name)  # type: ignore[no-any-return]


_TABLE = (
    Api(0, "Produce", "k00_produce", 0, 13, 9),
    Api(1, "Fetch", "k01_fetch", 0, 18, 12),
    Api(2, "ListOffsets", "k02_list_offsets", 0, 11, 6),
    Api(3, "Metadata", "k03_metadata", 0, 13, 9),
    Api(4, "LeaderAndIsr", "k04_leader_and_isr", 0, 7, 4),
    Api(5, "StopReplica", "k05_stop_replica", 0, 4, 2),
    Api(6, "UpdateMetadata", "k06_update_metadata", 0, 8, 6),
    Api(7, "ControlledShutdown", "k07_controlled_shutdown", 0, 3, 3),
    Api(8, "OffsetCommit", "k08_offset_commit", 0, 10, 8),
    Api(9, "OffsetFetch", "k09_offset_fetch", 0, 10, 6),
    Api(10, "FindCoordinator", "k10_find_coordinator", 0, 6, 3),
    Api(11, "JoinGroup", "k11_join_group", 0, 9, 6),
    Api(12, "Heartbeat", "k12_heartbeat", 0, 4, 4),
    Api(13, "LeaveGroup", "k13_leave_group", 0, 5, 4),
    Api(14, "SyncGroup", "k14_sync_group", 0, 5, 4),
    Api(15, "DescribeGroups", "k15_describe_groups", 0, 6, 5),
    Api(16, "ListGroups", "k16_list_groups", 0, 5, 3),
    Api(17, "SaslHandshake", "k17_sasl_handshake", 0, 1, None),
    Api(18, "ApiVersions", "k18_api_versions", 0, 4, 3),
    Api(19, "CreateTopics", "k19_create_topics", 0, 7, 5),
    Api(20, "DeleteTopics", "k20_delete_topics", 0, 6, 4),
    Api(21, "DeleteRecords", "k21_delete_records", 0, 2, 2),
    Api(22, "InitProducerId", "k22_init_producer_id", 0, 6, 2),
    Api(23, "OffsetForLeaderEpoch", "k23_offset_for_leader_epoch", 0, 4, 4),
    Api(24, "AddPartitionsToTxn", "k24_add_partitions_to_txn", 0, 5, 3),
    Api(25, "AddOffsetsToTxn", "k25_add_offsets_to_txn", 0, 4, 3),
    Api(26, "EndTxn", "k26_end_txn", 0, 5, 3),
    Api(27, "WriteTxnMarkers", "k27_write_txn_markers", 0, 2, 1),
    Api(28, "TxnOffsetCommit", "k28_txn_offset_commit", 0, 5, 3),
    Api(29, "DescribeAcls", "k29_describe_acls", 0, 3, 2),
    Api(30, "CreateAcls", "k30_create_acls", 0, 3, 2),
    Api(31, "DeleteAcls", "k31_delete_acls", 0, 3, 2),
    Api(32, "DescribeConfigs", "k32_describe_configs", 0, 4, 4),
    Api(33, "AlterConfigs", "k33_alter_configs", 0, 2, 2),
    Api(34, "AlterReplicaLogDirs", "k34_alter_replica_log_dirs", 0, 2, 2),
    Api(35, "DescribeLogDirs", "k35_describe_log_dirs", 0, 5, 2),
    Api(36, "SaslAuthenticate", "k36_sasl_authenticate", 0, 2, 2),
    Api(37, "CreatePartitions", "k37_create_partitions", 0, 3, 2),
    Api(38, "CreateDelegationToken", "k38_create_delegation_token", 0, 3, 2),
    Api(39, "RenewDelegationToken", "k39_renew_delegation_token", 0, 2, 2),
    Api(40, "ExpireDelegationToken", "k40_expire_delegation_token", 0, 2, 2),
    Api(41, "DescribeDelegationToken", "k41_describe_delegation_token", 0, 3, 2),
    Api(42, "DeleteGroups", "k42_delete_groups", 0, 2, 2),
    Api(43, "ElectLeaders", "k43_elect_leaders", 0, 2, 2),
    Api(44, "IncrementalAlterConfigs", "k44_incremental_alter_configs", 0, 1, 1),
    Api(45, "AlterPartitionReassignments", "k45_alter_partition_reassignments", 0, 1, 0),
    Api(46, "ListPartitionReassignments", "k46_list_partition_reassignments", 0, 0, 0),
    Api(47, "OffsetDelete", "k47_offset_delete", 0, 0, None),
    Api(48, "DescribeClientQuotas", "k48_describe_client_quotas", 0, 1, 1),
    Api(49, "AlterClientQuotas", "k49_alter_client_quotas", 0, 1, 1),
    Api(50, "DescribeUserScramCredentials", "k50_describe_user_scram_credentials", 0, 0, 0),
    Api(51, "AlterUserScramCredentials", "k51_alter_user_scram_credentials", 0, 0, 0),
    Api(52, "Vote", "k52_vote", 0, 2, 0),
    Api(53, "BeginQuorumEpoch", "k53_begin_quorum_epoch", 0, 1, 1),
    Api(54, "EndQuorumEpoch", "k54_end_quorum_epoch", 0, 1, 1),
    Api(55, "DescribeQuorum", "k55_describe_quorum", 0, 2, 0),
    Api(56, "AlterPartition", "k56_alter_partition", 0, 3, 0),
    Api(57, "UpdateFeatures", "k57_update_features", 0, 2, 0),
    Api(58, "Envelope", "k58_envelope", 0, 0, 0),
    Api(59, "FetchSnapshot", "k59_fetch_snapshot", 0, 1, 0),
    Api(60, "DescribeCluster", "k60_describe_cluster", 0, 2, 0),
    Api(61, "DescribeProducers", "k61_describe_producers", 0, 0, 0),
    Api(62, "BrokerRegistration", "k62_broker_registration", 0, 4, 0),
    Api(63, "BrokerHeartbeat", "k63_broker_heartbeat", 0, 2, 0),
    Api(64, "UnregisterBroker", "k64_unregister_broker", 0, 0, 0),
    Api(65, "DescribeTransactions", "k65_describe_transactions", 0, 0, 0),
    Api(66, "ListTransactions", "k66_list_transactions", 0, 2, 0),
    Api(67, "AllocateProducerIds", "k67_allocate_producer_ids", 0, 0, 0),
    Api(68, "ConsumerGroupHeartbeat", "k68_consumer_group_heartbeat", 0, 1, 0),
    Api(69, "ConsumerGroupDescribe", "k69_consumer_group_describe", 0, 1, 0),
    Api(70, "ControllerRegistration", "k70_controller_registration", 0, 0, 0),
    Api(73, "AssignReplicasToDirs", "k73_assign_replicas_to_dirs", 0, 0, 0),
    Api(74, "ListConfigResources", "k74_list_config_resources", 0, 1, 0),
    Api(75, "DescribeTopicPartitions", "k75_describe_topic_partitions", 0, 0, 0),
    Api(80, "AddRaftVoter", "k80_add_raft_voter", 0, 1, 0),
    Api(81, "RemoveRaftVoter", "k81_remove_raft_voter", 0, 0, 0),
    Api(82, "UpdateRaftVoter", "k82_update_raft_voter", 0, 0, 0),
)

APIS = {api.key: api for api in _TABLE}
"""Api key -> Api."""
