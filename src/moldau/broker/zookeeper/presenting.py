"""A broker in ZooKeeper mode that takes part in a migration presents itself to the quorum's controller (KIP-866).

From when it is registered in ZooKeeper, and again and again: a controller that becomes active, or a quorum that is made
anew, must know it. That it is answered proves that this broker will find the quorum when that leads. What the
controller makes of it is ``broker/migration/mode.py``.
"""

from __future__ import annotations

import logging

from moldau.broker.lifecycle import RegistrationRefused
from moldau.broker.loop import sleep
from moldau.broker.zookeeper.parts import ZooKeeperNode
from moldau.model import Code
from moldau.ports import Handle
from moldau.wire.messages.k62_broker_registration import BrokerRegistrationRequest

log = logging.getLogger(__name__)

RETRY_MS = 100
AGAIN_MS = 2_000
TIMEOUT_MS = 2_000


class Presenting:
    """One broker's. Runs from the first registration until the node stops."""

    def __init__(self, node: ZooKeeperNode) -> None:
        self._node = node
        self._task: Handle | None = None
        self._leader: int | None = None
        self._said = ""

    def open(self) -> None:
        """Begin, or begin anew in a new session."""
        self.close()
        self._task = self._node.world.tasks.spawn(self._live(), "presentation to the quorum")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _live(self) -> None:
        wait_ms = RETRY_MS
        while True:
            if await self._present():
                wait_ms = RETRY_MS
                await sleep(self._node.world.tasks, AGAIN_MS)
            else:
                await sleep(self._node.world.tasks, wait_ms)
                wait_ms = min(2 * wait_ms, AGAIN_MS)

    async def _present(self) -> bool:
        """Whether the quorum's controller has taken us in."""
        why = "no controller of the quorum answers"
        voters = self._node.config.voters
        for id in sorted(voters, key=lambda id: (id != self._leader, id)):
            try:
                answer = await self._node.peers.ask(*voters[id], self._request(), TIMEOUT_MS)
            except OSError as error:
                log.debug("controller %d: %s", id, error)
                continue
            code = Code(answer.error_code)
            if code is Code.NOT_CONTROLLER:
                continue
            if code is Code.INCONSISTENT_CLUSTER_ID:
                raise RegistrationRefused(
                    "the cluster behind controller.quorum.voters is another one:"
                    f" ZooKeeper's is {self._node.cluster_id}"
                )
            if code is Code.NONE:
                self._leader = id
                self._say(f"controller {id} of the quorum knows this broker")
                return True
            why = f"controller {id} answers {code.name}"
        self._say(f"the migration cannot begin for this broker yet: {why}")
        return False

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.info("%s", text)

    def _request(self) -> BrokerRegistrationRequest:
        node = self._node
        request = BrokerRegistrationRequest
        return request(
            broker_id=node.config.node_id,
            cluster_id=node.cluster_id,
            incarnation_id=node.lifecycle.incarnation_id,
            listeners=[
                request.Listener(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in node.own_endpoints()
            ],
            rack=node.config["broker.rack"],
            is_migrating_zk_broker=True,
        )
