"""Kafka's error codes as its tools show them: an exception, and what it says where the broker is silent.

Facts of Apache Kafka 4.3.1's org.apache.kafka.common.protocol.Errors.
"""

from __future__ import annotations

from moldau.admin.classic.java import JavaError
from moldau.model import Code

PACKAGE = "org.apache.kafka.common.errors."


def kafka_error(code: Code, message: str | None = None) -> JavaError:
    """The exception for a code; ``message`` is the broker's, if it said one."""
    kind, default = EXCEPTIONS.get(code, EXCEPTIONS[Code.UNKNOWN_SERVER_ERROR])
    return JavaError(PACKAGE + kind, default if message is None else message)


def timed_out(message: str) -> JavaError:
    """Nobody has answered in time."""
    return JavaError(PACKAGE + "TimeoutException", message)


EXCEPTIONS: dict[Code, tuple[str, str]] = {
    Code.UNKNOWN_SERVER_ERROR: (
        "UnknownServerException",
        "The server experienced an unexpected error when processing the request.",
    ),
    Code.OFFSET_OUT_OF_RANGE: (
        "OffsetOutOfRangeException",
        "The requested offset is not within the range of offsets maintained by the server.",
    ),
    Code.CORRUPT_MESSAGE: (
        "CorruptRecordException",
        "This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted "
        "topic, or is otherwise corrupt.",
    ),
    Code.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    Code.INVALID_FETCH_SIZE: ("InvalidFetchSizeException", "The requested fetch size is invalid."),
    Code.LEADER_NOT_AVAILABLE: (
        "LeaderNotAvailableException",
        "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    ),
    Code.NOT_LEADER_OR_FOLLOWER: (
        "NotLeaderOrFollowerException",
        "For requests intended only for the leader, this error indicates that the broker is not the current "
        "leader. For requests intended for any replica, this error indicates that the broker is not a replica "
        "of the topic partition.",
    ),
    Code.REQUEST_TIMED_OUT: ("TimeoutException", "The request timed out."),
    Code.BROKER_NOT_AVAILABLE: ("BrokerNotAvailableException", "The broker is not available."),
    Code.REPLICA_NOT_AVAILABLE: (
        "ReplicaNotAvailableException",
        "The replica is not available for the requested topic-partition. Produce/Fetch requests and other "
        "requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not "
        "a replica of the topic-partition.",
    ),
    Code.MESSAGE_TOO_LARGE: (
        "RecordTooLargeException",
        "The request included a message larger than the max message size the server will accept.",
    ),
    Code.STALE_CONTROLLER_EPOCH: ("ControllerMovedException", "The controller moved to another broker."),
    Code.OFFSET_METADATA_TOO_LARGE: (
        "OffsetMetadataTooLarge",
        "The metadata field of the offset request was too large.",
    ),
    Code.NETWORK_EXCEPTION: ("NetworkException", "The server disconnected before a response was received."),
    Code.COORDINATOR_LOAD_IN_PROGRESS: (
        "CoordinatorLoadInProgressException",
        "The coordinator is loading and hence can't process requests.",
    ),
    Code.COORDINATOR_NOT_AVAILABLE: ("CoordinatorNotAvailableException", "The coordinator is not available."),
    Code.NOT_COORDINATOR: ("NotCoordinatorException", "This is not the correct coordinator."),
    Code.INVALID_TOPIC_EXCEPTION: (
        "InvalidTopicException",
        "The request attempted to perform an operation on an invalid topic.",
    ),
    Code.RECORD_LIST_TOO_LARGE: (
        "RecordBatchTooLargeException",
        "The request included message batch larger than the configured segment size on the server.",
    ),
    Code.NOT_ENOUGH_REPLICAS: (
        "NotEnoughReplicasException",
        "Messages are rejected since there are fewer in-sync replicas than required.",
    ),
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "NotEnoughReplicasAfterAppendException",
        "Messages are written to the log, but to fewer in-sync replicas than required.",
    ),
    Code.INVALID_REQUIRED_ACKS: (
        "InvalidRequiredAcksException",
        "Produce request specified an invalid value for required acks.",
    ),
    Code.ILLEGAL_GENERATION: ("IllegalGenerationException", "Specified group generation id is not valid."),
    Code.INCONSISTENT_GROUP_PROTOCOL: (
        "InconsistentGroupProtocolException",
        "The group member's supported protocols are incompatible with those of existing members or first "
        "group member tried to join with empty protocol type or empty protocol list.",
    ),
    Code.INVALID_GROUP_ID: ("InvalidGroupIdException", "The group id is invalid."),
    Code.UNKNOWN_MEMBER_ID: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    Code.INVALID_SESSION_TIMEOUT: (
        "InvalidSessionTimeoutException",
        "The session timeout is not within the range allowed by the broker (as configured by "
        "group.min.session.timeout.ms and group.max.session.timeout.ms).",
    ),
    Code.REBALANCE_IN_PROGRESS: ("RebalanceInProgressException", "The group is rebalancing, so a rejoin is needed."),
    Code.INVALID_COMMIT_OFFSET_SIZE: (
        "InvalidCommitOffsetSizeException",
        "The committing offset data size is not valid.",
    ),
    Code.TOPIC_AUTHORIZATION_FAILED: ("TopicAuthorizationException", "Topic authorization failed."),
    Code.GROUP_AUTHORIZATION_FAILED: ("GroupAuthorizationException", "Group authorization failed."),
    Code.CLUSTER_AUTHORIZATION_FAILED: ("ClusterAuthorizationException", "Cluster authorization failed."),
    Code.INVALID_TIMESTAMP: ("InvalidTimestampException", "The timestamp of the message is out of acceptable range."),
    Code.UNSUPPORTED_SASL_MECHANISM: (
        "UnsupportedSaslMechanismException",
        "The broker does not support the requested SASL mechanism.",
    ),
    Code.ILLEGAL_SASL_STATE: ("IllegalSaslStateException", "Request is not valid given the current SASL state."),
    Code.UNSUPPORTED_VERSION: ("UnsupportedVersionException", "The version of API is not supported."),
    Code.TOPIC_ALREADY_EXISTS: ("TopicExistsException", "Topic with this name already exists."),
    Code.INVALID_PARTITIONS: ("InvalidPartitionsException", "Number of partitions is below 1."),
    Code.INVALID_REPLICATION_FACTOR: (
        "InvalidReplicationFactorException",
        "Replication factor is below 1 or larger than the number of available brokers.",
    ),
    Code.INVALID_REPLICA_ASSIGNMENT: ("InvalidReplicaAssignmentException", "Replica assignment is invalid."),
    Code.INVALID_CONFIG: ("InvalidConfigurationException", "Configuration is invalid."),
    Code.NOT_CONTROLLER: ("NotControllerException", "This is not the correct controller for this cluster."),
    Code.INVALID_REQUEST: (
        "InvalidRequestException",
        "This most likely occurs because of a request being malformed by the client library or the message "
        "was sent to an incompatible broker. See the broker logs for more details.",
    ),
    Code.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "UnsupportedForMessageFormatException",
        "The message format version on the broker does not support the request.",
    ),
    Code.POLICY_VIOLATION: ("PolicyViolationException", "Request parameters do not satisfy the configured policy."),
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER: (
        "OutOfOrderSequenceException",
        "The broker received an out of order sequence number.",
    ),
    Code.DUPLICATE_SEQUENCE_NUMBER: ("DuplicateSequenceException", "The broker received a duplicate sequence number."),
    Code.INVALID_PRODUCER_EPOCH: ("InvalidProducerEpochException", "Producer attempted to produce with an old epoch."),
    Code.INVALID_TXN_STATE: (
        "InvalidTxnStateException",
        "The producer attempted a transactional operation in an invalid state.",
    ),
    Code.INVALID_PRODUCER_ID_MAPPING: (
        "InvalidPidMappingException",
        "The producer attempted to use a producer id which is not currently assigned to its transactional id.",
    ),
    Code.INVALID_TRANSACTION_TIMEOUT: (
        "InvalidTxnTimeoutException",
        "The transaction timeout is larger than the maximum value allowed by the broker (as configured by "
        "transaction.max.timeout.ms).",
    ),
    Code.CONCURRENT_TRANSACTIONS: (
        "ConcurrentTransactionsException",
        "The producer attempted to update a transaction while another concurrent operation on the same "
        "transaction was ongoing.",
    ),
    Code.TRANSACTION_COORDINATOR_FENCED: (
        "TransactionCoordinatorFencedException",
        "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current "
        "coordinator for a given producer.",
    ),
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "TransactionalIdAuthorizationException",
        "Transactional Id authorization failed.",
    ),
    Code.SECURITY_DISABLED: ("SecurityDisabledException", "Security features are disabled."),
    Code.OPERATION_NOT_ATTEMPTED: (
        "OperationNotAttemptedException",
        "The broker did not attempt to execute this operation. This may happen for batched RPCs where some "
        "operations in the batch failed, causing the broker to respond without trying the rest.",
    ),
    Code.KAFKA_STORAGE_ERROR: ("KafkaStorageException", "Disk error when trying to access log file on the disk."),
    Code.LOG_DIR_NOT_FOUND: (
        "LogDirNotFoundException",
        "The user-specified log directory is not found in the broker config.",
    ),
    Code.SASL_AUTHENTICATION_FAILED: ("SaslAuthenticationException", "SASL Authentication failed."),
    Code.UNKNOWN_PRODUCER_ID: (
        "UnknownProducerIdException",
        "This exception is raised by the broker if it could not locate the producer metadata associated with "
        "the producerId in question. This could happen if, for instance, the producer's records were deleted "
        "because their retention time had elapsed. Once the last records of the producerId are removed, the "
        "producer's metadata is removed from the broker, and future appends by the producer will return this "
        "exception.",
    ),
    Code.REASSIGNMENT_IN_PROGRESS: ("ReassignmentInProgressException", "A partition reassignment is in progress."),
    Code.DELEGATION_TOKEN_AUTH_DISABLED: (
        "DelegationTokenDisabledException",
        "Delegation Token feature is not enabled.",
    ),
    Code.DELEGATION_TOKEN_NOT_FOUND: ("DelegationTokenNotFoundException", "Delegation Token is not found on server."),
    Code.DELEGATION_TOKEN_OWNER_MISMATCH: (
        "DelegationTokenOwnerMismatchException",
        "Specified Principal is not valid Owner/Renewer.",
    ),
    Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "UnsupportedByAuthenticationException",
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token "
        "authenticated channels.",
    ),
    Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "DelegationTokenAuthorizationException",
        "Delegation Token authorization failed.",
    ),
    Code.DELEGATION_TOKEN_EXPIRED: ("DelegationTokenExpiredException", "Delegation Token is expired."),
    Code.INVALID_PRINCIPAL_TYPE: ("InvalidPrincipalTypeException", "Supplied principalType is not supported."),
    Code.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    Code.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    Code.FETCH_SESSION_ID_NOT_FOUND: ("FetchSessionIdNotFoundException", "The fetch session ID was not found."),
    Code.INVALID_FETCH_SESSION_EPOCH: ("InvalidFetchSessionEpochException", "The fetch session epoch is invalid."),
    Code.LISTENER_NOT_FOUND: (
        "ListenerNotFoundException",
        "There is no listener on the leader broker that matches the listener on which metadata request was processed.",
    ),
    Code.TOPIC_DELETION_DISABLED: ("TopicDeletionDisabledException", "Topic deletion is disabled."),
    Code.FENCED_LEADER_EPOCH: (
        "FencedLeaderEpochException",
        "The leader epoch in the request is older than the epoch on the broker.",
    ),
    Code.UNKNOWN_LEADER_EPOCH: (
        "UnknownLeaderEpochException",
        "The leader epoch in the request is newer than the epoch on the broker.",
    ),
    Code.UNSUPPORTED_COMPRESSION_TYPE: (
        "UnsupportedCompressionTypeException",
        "The requesting client does not support the compression type of given partition.",
    ),
    Code.STALE_BROKER_EPOCH: ("StaleBrokerEpochException", "Broker epoch has changed."),
    Code.OFFSET_NOT_AVAILABLE: (
        "OffsetNotAvailableException",
        "The leader high watermark has not caught up from a recent leader election so the offsets cannot be "
        "guaranteed to be monotonically increasing.",
    ),
    Code.MEMBER_ID_REQUIRED: (
        "MemberIdRequiredException",
        "The group member needs to have a valid member id before actually entering a consumer group.",
    ),
    Code.PREFERRED_LEADER_NOT_AVAILABLE: (
        "PreferredLeaderNotAvailableException",
        "The preferred leader was not available.",
    ),
    Code.GROUP_MAX_SIZE_REACHED: ("GroupMaxSizeReachedException", "The group has reached its maximum size."),
    Code.FENCED_INSTANCE_ID: (
        "FencedInstanceIdException",
        "The broker rejected this static consumer since another consumer with the same group.instance.id has "
        "registered with a different member.id.",
    ),
    Code.ELIGIBLE_LEADERS_NOT_AVAILABLE: (
        "EligibleLeadersNotAvailableException",
        "Eligible topic partition leaders are not available.",
    ),
    Code.ELECTION_NOT_NEEDED: ("ElectionNotNeededException", "Leader election not needed for topic partition."),
    Code.NO_REASSIGNMENT_IN_PROGRESS: (
        "NoReassignmentInProgressException",
        "No partition reassignment is in progress.",
    ),
    Code.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
    Code.INVALID_RECORD: (
        "org.apache.kafka.common.InvalidRecordException",
        "This record has failed the validation on broker and hence will be rejected.",
    ),
    Code.UNSTABLE_OFFSET_COMMIT: (
        "UnstableOffsetCommitException",
        "There are unstable offsets that need to be cleared.",
    ),
    Code.THROTTLING_QUOTA_EXCEEDED: ("ThrottlingQuotaExceededException", "The throttling quota has been exceeded."),
    Code.PRODUCER_FENCED: (
        "ProducerFencedException",
        "There is a newer producer with the same transactionalId which fences the current one.",
    ),
    Code.RESOURCE_NOT_FOUND: (
        "ResourceNotFoundException",
        "A request illegally referred to a resource that does not exist.",
    ),
    Code.DUPLICATE_RESOURCE: ("DuplicateResourceException", "A request illegally referred to the same resource twice."),
    Code.UNACCEPTABLE_CREDENTIAL: (
        "UnacceptableCredentialException",
        "Requested credential would not meet criteria for acceptability.",
    ),
    Code.INCONSISTENT_VOTER_SET: (
        "InconsistentVoterSetException",
        "Indicates that the either the sender or recipient of a voter-only request is not one of the expected voters.",
    ),
    Code.INVALID_UPDATE_VERSION: ("InvalidUpdateVersionException", "The given update version was invalid."),
    Code.FEATURE_UPDATE_FAILED: (
        "FeatureUpdateFailedException",
        "Unable to update finalized features due to an unexpected server error.",
    ),
    Code.PRINCIPAL_DESERIALIZATION_FAILURE: (
        "PrincipalDeserializationException",
        "Request principal deserialization failed during forwarding. This indicates an internal error on the "
        "broker cluster security setup.",
    ),
    Code.SNAPSHOT_NOT_FOUND: ("SnapshotNotFoundException", "Requested snapshot was not found."),
    Code.POSITION_OUT_OF_RANGE: (
        "PositionOutOfRangeException",
        "Requested position is not greater than or equal to zero, and less than the size of the snapshot.",
    ),
    Code.UNKNOWN_TOPIC_ID: ("UnknownTopicIdException", "This server does not host this topic ID."),
    Code.DUPLICATE_BROKER_REGISTRATION: ("DuplicateBrokerRegistrationException", "This broker ID is already in use."),
    Code.BROKER_ID_NOT_REGISTERED: ("BrokerIdNotRegisteredException", "The given broker ID was not registered."),
    Code.INCONSISTENT_TOPIC_ID: (
        "InconsistentTopicIdException",
        "The log's topic ID did not match the topic ID in the request.",
    ),
    Code.INCONSISTENT_CLUSTER_ID: (
        "InconsistentClusterIdException",
        "The clusterId in the request does not match that found on the server.",
    ),
    Code.TRANSACTIONAL_ID_NOT_FOUND: ("TransactionalIdNotFoundException", "The transactionalId could not be found."),
    Code.FETCH_SESSION_TOPIC_ID_ERROR: (
        "FetchSessionTopicIdException",
        "The fetch session encountered inconsistent topic ID usage.",
    ),
    Code.INELIGIBLE_REPLICA: ("IneligibleReplicaException", "The new ISR contains at least one ineligible replica."),
    Code.NEW_LEADER_ELECTED: (
        "NewLeaderElectedException",
        "The AlterPartition request successfully updated the partition state but the leader has changed.",
    ),
    Code.OFFSET_MOVED_TO_TIERED_STORAGE: (
        "OffsetMovedToTieredStorageException",
        "The requested offset is moved to tiered storage.",
    ),
    Code.FENCED_MEMBER_EPOCH: (
        "FencedMemberEpochException",
        "The member epoch is fenced by the group coordinator. The member must abandon all its partitions and rejoin.",
    ),
    Code.UNRELEASED_INSTANCE_ID: (
        "UnreleasedInstanceIdException",
        "The instance ID is still used by another member in the consumer group. That member must leave first.",
    ),
    Code.UNSUPPORTED_ASSIGNOR: (
        "UnsupportedAssignorException",
        "The assignor or its version range is not supported by the consumer group.",
    ),
    Code.STALE_MEMBER_EPOCH: (
        "StaleMemberEpochException",
        "The member epoch is stale. The member must retry after receiving its updated member epoch via the "
        "ConsumerGroupHeartbeat API.",
    ),
    Code.MISMATCHED_ENDPOINT_TYPE: (
        "MismatchedEndpointTypeException",
        "The request was sent to an endpoint of the wrong type.",
    ),
    Code.UNSUPPORTED_ENDPOINT_TYPE: ("UnsupportedEndpointTypeException", "This endpoint type is not supported yet."),
    Code.UNKNOWN_CONTROLLER_ID: ("UnknownControllerIdException", "This controller ID is not known."),
    Code.UNKNOWN_SUBSCRIPTION_ID: (
        "UnknownSubscriptionIdException",
        "Client sent a push telemetry request with an invalid or outdated subscription ID.",
    ),
    Code.TELEMETRY_TOO_LARGE: (
        "TelemetryTooLargeException",
        "Client sent a push telemetry request larger than the maximum size the broker will accept.",
    ),
    Code.INVALID_REGISTRATION: (
        "InvalidRegistrationException",
        "The controller has considered the broker registration to be invalid.",
    ),
    Code.TRANSACTION_ABORTABLE: (
        "TransactionAbortableException",
        "The server encountered an error with the transaction. The client can abort the transaction to "
        "continue using this transactional ID.",
    ),
    Code.INVALID_RECORD_STATE: (
        "InvalidRecordStateException",
        "The record state is invalid. The acknowledgement of delivery could not be completed.",
    ),
    Code.SHARE_SESSION_NOT_FOUND: ("ShareSessionNotFoundException", "The share session was not found."),
    Code.INVALID_SHARE_SESSION_EPOCH: ("InvalidShareSessionEpochException", "The share session epoch is invalid."),
    Code.FENCED_STATE_EPOCH: (
        "FencedStateEpochException",
        "The share coordinator rejected the request because the share-group state epoch did not match.",
    ),
    Code.INVALID_VOTER_KEY: ("InvalidVoterKeyException", "The voter key doesn't match the receiving replica's key."),
    Code.DUPLICATE_VOTER: ("DuplicateVoterException", "The voter is already part of the set of voters."),
    Code.VOTER_NOT_FOUND: ("VoterNotFoundException", "The voter is not part of the set of voters."),
    Code.INVALID_REGULAR_EXPRESSION: ("InvalidRegularExpression", "The regular expression is not valid."),
    Code.REBOOTSTRAP_REQUIRED: (
        "RebootstrapRequiredException",
        "Client metadata is stale. The client should rebootstrap to obtain new metadata.",
    ),
    Code.STREAMS_INVALID_TOPOLOGY: ("StreamsInvalidTopologyException", "The supplied topology is invalid."),
    Code.STREAMS_INVALID_TOPOLOGY_EPOCH: (
        "StreamsInvalidTopologyEpochException",
        "The supplied topology epoch is invalid.",
    ),
    Code.STREAMS_TOPOLOGY_FENCED: ("StreamsTopologyFencedException", "The supplied topology epoch is outdated."),
    Code.SHARE_SESSION_LIMIT_REACHED: (
        "ShareSessionLimitReachedException",
        "The limit of share sessions has been reached.",
    ),
}
