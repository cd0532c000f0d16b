"""DeleteGroups, 0-2: delete groups without members, with all their offsets; answered when the log has it (KIP-229)."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from moldau.broker.groups.coordinator import Answering
from moldau.broker.network.context import Context
from moldau.broker.services import BrokerServices
from moldau.groups.facts import DeleteGroup, DeleteGroupReply
from moldau.wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

KEY = 42


def handle(node: BrokerServices, request: DeleteGroupsRequest, context: Context) -> Generator[None, None, Answering]:
    """One request a group, some in each turn of the loop; a name given twice is asked once."""
    names = list(dict.fromkeys(request.groups_names))

    def finish(replies: Sequence[DeleteGroupReply]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[
                DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=reply.code)
                for name, reply in zip(names, replies, strict=True)
            ]
        )

    return node.coordinator.submit_in_slices([DeleteGroup(name) for name in names], finish)
