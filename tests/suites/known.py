"""What other projects' suites ask for and do not get here, with the reason. Nothing else of theirs may fail.

Each entry is a pattern of a test's full name. An entry stands for a feature that is not there, or for a test that no
broker passes under these conditions, which is shown by playing it against Apache Kafka (``--system kafka``); a
difference to Apache Kafka is mended, not entered.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LIMIT_S = 180
KNOWN_LIMIT_S = 20
TRANSACTIONS = "transactions are not served yet"
ACLS = "ACLs are not served yet"
SCRAM = "SCRAM is not served yet"
SHARE_GROUPS = "share groups are not served yet"


class Known(NamedTuple):
    """A test that may fail, and why."""

    pattern: str
    reason: str
    anywhere: bool = False
    """Whether it fails against Apache Kafka under these conditions too."""


KGO = (Known(r"TestTxnEtl", TRANSACTIONS),)

SASL_LISTENER = "asks for a broker on port 9093 with SASL"
KAFKA_GO = (
    Known(r"Test(AlterUserScramCredentials|DescribeUserScramCredentials)", SCRAM),
    Known(r"TestClient(Create|Delete|Describe)ACLs", ACLS),
    Known(r"TestClientFindCoordinator", TRANSACTIONS + " (it asks for their coordinator)"),
    Known(r"TestUnsupportedSASLMechanism|TestWriter/.*SASL.*", SASL_LISTENER, anywhere=True),
    Known(
        r"TestReaderReadCompactedMessage",
        "segment.bytes=200: Apache Kafka 4 refuses less than 1 MiB too (KIP-1030)",
        anywhere=True,
    ),
    Known(
        r"TestReaderConsumerGroup/(consumer_group_commits_on_close|.*verify_offset.*)",
        "calls a function of its own that is nil, whatever the broker says",
        anywhere=True,
    ),
    Known(
        r"TestReaderConsumerGroup/consumer_group_rebalance",
        "wants 12 records from each of two readers, gets 8 and 16, from Apache Kafka 4.3.1 too",
        anywhere=True,
    ),
)


KIP_848 = "the group protocol of KIP-848 is not served yet"
OF_KIP_848 = (
    "ConsumerLeaveReassigns|DescribeGroup|TxnOffsetCommit|Reconciliation.*"
    "|StableToUnrevokedPartitions|UnreleasedPartitionsWaitForRevocation"
)
"""Its tests that fail where the client has to take the classic protocol; with others that protocol does."""
KFAKE = (
    Known(r"TestCreateTopicsReplicaAssignment", "gives replicas to broker 0; here they count from 1", anywhere=True),
    Known(r"Test848(FencedEpochRecovery|SessionTimeout)", "sets a hook of the fake", anywhere=True),
    Known(
        r"TestGroupMaxSize848",
        "joins without a member id (INVALID_REQUEST), and sets the size of classic groups",
        anywhere=True,
    ),
    Known(
        r"TestDescribeProducersAfterCommit",
        "wants a producer gone with its transaction: brokers keep it for producer.id.expiration.ms",
        anywhere=True,
    ),
    Known(
        r"TestFence(After|Before)ProducerCommit",
        "asks for a producer id once, is told CONCURRENT_TRANSACTIONS, and does not ask again",
        anywhere=True,
    ),
    Known(rf"Test848({OF_KIP_848})|TestStaticMember848.*", KIP_848),
    Known(r"TestTransactional.*|TestDescribeProducersDefaultRoutesToLeader", TRANSACTIONS),
)

SARAMA = (
    Known(r"TestFunc(Txn|InitProducerId3|DescribeTransactions|ListTransactions).*", TRANSACTIONS),
    Known(r"TestFuncAdminUpdateFeatures", SHARE_GROUPS + " (it raises share.version)"),
)

LIBRDKAFKA = (
    Known(r"0(055|098|103|129).*", TRANSACTIONS),
    Known(r"0061.*/with transactions|0137.*/do_test_consume_batch_control_msgs", TRANSACTIONS),
    Known(r"0(109|115|119).*|0081.*/do_test_(Create|Describe|Delete)Acls", ACLS),
    Known(r"0081.*/do_test_UserScramCredentials", SCRAM),
    Known(r"01[78]\d.*", SHARE_GROUPS),
)


def limit_s(known: tuple[Known, ...], test: str, system: str) -> int:
    """How long a test may take: not long when it is known to fail, as some wait for ever for what will not come."""
    return KNOWN_LIMIT_S if reason(known, test, system) else LIMIT_S


def reason(known: tuple[Known, ...], test: str, system: str) -> str | None:
    """Why a test may fail against a system, if it may."""
    found = (one for one in known if re.fullmatch(one.pattern, test))
    return next((one.reason for one in found if one.anywhere or system != "kafka"), None)
