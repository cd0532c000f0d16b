"""What other projects' suites ask for and do not get here, with the reason. Nothing else of theirs may fail.

Each entry is a pattern of a test's full name. An entry stands for a feature that is not there, or for a test that no
broker passes under these conditions; a difference to Apache Kafka is mended, not entered. What has not been compared
says OPEN.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TRANSACTIONS = "transactions are not served yet"
ACLS = "ACLs are not served yet"
SCRAM = "SCRAM is not served yet"
QUOTAS = "client quotas are not served yet"


class Known(NamedTuple):
    """A test that may fail, and why."""

    pattern: str
    reason: str


KGO = (Known(r"TestTxnEtl", TRANSACTIONS),)

SASL_LISTENER = "asks for a broker on port 9093 with SASL"
KAFKA_GO = (
    Known(r"TestClientAlterClientQuotas", QUOTAS),
    Known(r"Test(AlterUserScramCredentials|DescribeUserScramCredentials)", SCRAM),
    Known(r"TestClient(Create|Delete|Describe)ACLs", ACLS),
    Known(r"TestClientFindCoordinator", TRANSACTIONS + " (it asks for their coordinator)"),
    Known(r"TestUnsupportedSASLMechanism|TestWriter/.*SASL.*", SASL_LISTENER),
    Known(
        r"TestReaderReadCompactedMessage", "segment.bytes=200: Apache Kafka 4 refuses less than 1 MiB too (KIP-1030)"
    ),
    Known(
        r"TestConn/.*test_delete_topics.*",
        "expects an auto-created topic to have no partitions at first; here it has them, and leaders, at once",
    ),
    Known(
        r"TestReaderConsumerGroup/(consumer_group_commits_on_close|.*verify_offset.*)",
        "calls a function of its own that is nil, whatever the broker says",
    ),
    Known(
        r"TestReaderConsumerGroup/consumer_group_rebalance",
        "OPEN: wants 12 records from each of two readers, gets 8 and 16; not yet compared with Apache Kafka",
    ),
)


def reason(known: tuple[Known, ...], test: str) -> str | None:
    """Why a test may fail, if it may."""
    return next((one.reason for one in known if re.fullmatch(one.pattern, test)), None)
