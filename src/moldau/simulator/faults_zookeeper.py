"""Faults of ZooKeeper mode only: sessions and answers are lost, servers lag, lose their leader or cannot be reached.

Every fault of faults.py happens here too; the servers are hosts of the same net, so that cuts may leave them without a
majority, or a node without ZooKeeper. Read next: zookeeper_servers.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from moldau.simulator.cluster import SimulatedHost
from moldau.simulator.cluster_observer_zookeeper import ZooKeeperObserver, plane_of
from moldau.simulator.cluster_zookeeper import CHROOT, ZooKeeperCluster
from moldau.simulator.damage_zookeeper import ZnodeDamage
from moldau.simulator.fault_injector import LASTING_S, FaultInjector
from moldau.simulator.faults import FAULTS
from moldau.simulator.tools_zookeeper import Tools
from moldau.simulator.zookeeper_servers import ELECTION_S
from moldau.zookeeper import paths

LINGER_S = (0.0, 0.0, 0.3, 3.0)
UNHEARD_S = 1.5
"""A lag in which much can happen before a controller learns of it, and no session ends."""


class ZooKeeperFaultInjector(FaultInjector):
    """The fault injector of ZooKeeper mode."""

    def __init__(self, cluster: ZooKeeperCluster, observer: ZooKeeperObserver) -> None:
        super().__init__(cluster, observer)
        self.ensemble = cluster.ensemble
        self.tools = Tools(cluster, observer)
        self.znode_damage = ZnodeDamage(cluster)

    async def run(self) -> None:
        """As in the other mode; then what stands in znodes is Kafka's again."""
        await super().run()
        self.znode_damage.take_back()

    async def inject(self, name: str) -> bool:
        if name in ZOOKEEPER_FAULTS:
            return await ZOOKEEPER_FAULTS[name](self)
        return await FAULTS[name](self)

    def undone(self) -> list[str]:
        return self.tools.undone()

    def _hostnames(self) -> list[str]:
        return [*super()._hostnames(), *(server.name for server in self.ensemble.servers)]

    # ---- sessions

    async def _expire(self) -> bool:
        """The servers expire a living session."""
        return self._end(self.rng.choice(list(self.ensemble.sessions)) if self.ensemble.sessions else None)

    async def _expire_controller(self) -> bool:
        controller = self.ensemble.tree.znodes.get(CHROOT + paths.CONTROLLER)
        return self._end(None if controller is None else controller.owner)

    def _end(self, session: int | None) -> bool:
        if session not in self.ensemble.sessions:
            return False
        owner, linger_s = self.ensemble.sessions[session].owner, self.rng.choice(LINGER_S)
        if not self._may_leave(session):
            return False
        who = "nobody" if owner is None else owner.name
        self.cluster.record_event(
            f"the session of {who} is ended, its znodes {f'{linger_s:g} s later' if linger_s else 'too'}"
        )
        self.ensemble.expire(session, linger_s)
        return True

    def _may_leave(self, session: int) -> bool:
        """Whether a session may end: its broker leaves its ISRs. So the last that is whole keeps its own, while a host
        that lost its tail is registered as it was before, and would be all that is left of an ISR (seed 700024).
        """
        unheard = any(self._unheard(id) for id in self.lossy)
        leaves = {host.id for host in self.cluster.hosts.values() if self._opened(session, host)}
        return not unheard or self.may_crash(*leaves)

    def _unheard(self, id: int) -> bool:
        """Whether this host is registered by an earlier process: the others cannot know that it ended."""
        znode = self.ensemble.tree.znodes.get(CHROOT + paths.broker(id))
        return znode is not None and not self._opened(znode.owner, self.cluster.hosts[id])

    async def _no_zookeeper(self) -> bool:
        """A node sees all others and no ZooKeeper: who leads there is a zombie soon."""
        hostname = self.rng.choice([host.hostname for host in self.cluster.hosts.values()])
        servers = [server.name for server in self.ensemble.servers]
        links = {(hostname, one) for one in servers} | {(one, hostname) for one in servers}
        if self.rng.random() < 0.3:
            links = {link for link in links if link[1] == hostname}  # requests are carried out without an answer
        return await self._sever(links, f"{hostname} is cut off from ZooKeeper")

    async def _unseen(self) -> bool:
        """A host loses power and is back before the controller knows of it, which then rewrites states, for
        another broker dies, and loses its session: what it wrote is newer than a registration that it never knew."""
        controller = self.ensemble.tree.znodes.get(CHROOT + paths.CONTROLLER)
        free = [one for one in self.cluster.alive if one.id not in self.busy]
        ruling = [one for one in free if controller is not None and self._opened(controller.owner, one)]
        if controller is None or not ruling:
            return False
        rules = ruling[0]
        self.busy.add(rules.id)
        if (host := self.crashable(loses=not self.plan.flush)) is not None:
            await self._bounce(host, rules)
            await self._lose_another(controller.owner, host)
        self.busy.discard(rules.id)
        return host is not None

    async def _bounce(self, host: SimulatedHost, rules: SimulatedHost) -> None:
        links = [(rules.hostname, host.hostname), (host.hostname, rules.hostname)]
        plane = plane_of(rules.node) if rules.node is not None else None
        if plane is not None and plane.zk.wire is not None:
            server = plane.zk.wire.server
            server.due_s = max(server.due_s, self.cluster.loop.time() + UNHEARD_S)
            links += [(host.hostname, server.name), (server.name, host.hostname)]  # it goes to one that is up to date
        mend = self.cluster.wires.sever(links)
        self.cluster.record_event(f"{rules.hostname} hears nothing of {host.hostname}, and late of ZooKeeper")
        self.cluster.kill(host.id, power=self.rng)
        await self._wait(0.2 * self.rng.random())
        known = self._on_start(host.id)
        self.cluster.start(host.id)
        await self.cluster.until(lambda: self._on_start(host.id) not in (known, None), UNHEARD_S / 2)
        self.cluster.loop.call_later(UNHEARD_S, mend)
        self.busy.discard(host.id)

    def _opened(self, session: int, host: SimulatedHost) -> bool:
        return self.ensemble.opened[session].owner is host.owner

    def _on_start(self, id: int) -> int | None:
        znode = self.ensemble.tree.znodes.get(CHROOT + paths.broker(id))
        return None if znode is None else znode.born

    async def _lose_another(self, session: int, bounced: SimulatedHost) -> None:
        """A broker that does not rule dies, the controller says so in every state, and its session ends."""
        free = [one for one in self.cluster.alive if one.id not in self.busy | self.lossy | {bounced.id}]
        other = next((one for one in free if self.may_crash(one.id)), None)
        if other is not None:
            self.busy.add(other.id)
            self.crashed.add(other.id)
            self.cluster.kill(other.id)
            await self._wait(0.5)
        self._end(session)
        await self.last()
        if other is not None:
            self.come_back(other)

    # ---- servers

    async def _ensemble_leader(self) -> bool:
        for_s = self.rng.choice(ELECTION_S)
        self.cluster.record_event(f"ZooKeeper loses its leader, for {for_s:g} s")
        self.ensemble.lose_leader(for_s)
        await self._wait(for_s)
        return True

    async def _ensemble_away(self) -> bool:
        for_s = self.rng.choice(LASTING_S)
        self.cluster.record_event(f"ZooKeeper serves nobody, for {for_s:g} s")
        self.ensemble.lose_leader(for_s)
        await self._wait(for_s)
        return True

    async def _lag(self) -> bool:
        """Reads are answered from what was true some time ago."""
        for server in self.ensemble.servers:
            server.lag_s = self.rng.choice((0.002, 0.05, 0.5, 3.0))
        self.cluster.record_event(
            f"ZooKeeper's servers lag by up to {[server.lag_s for server in self.ensemble.servers]} s"
        )
        await self.last()
        for server in self.ensemble.servers:
            server.lag_s = 0.002
        return True

    async def _lost_answers(self) -> bool:
        self.ensemble.flaky = self.rng.choice((0.02, 0.1, 0.4))
        self.cluster.record_event(
            f"{self.ensemble.flaky:.0%} of what is asked of ZooKeeper is lost, and as many answers"
        )
        await self.last()
        self.ensemble.flaky = 0.0
        self.cluster.record_event("ZooKeeper answers again")
        return True

    async def _tools(self) -> bool:
        """A tool of the ZooKeeper era leaves a request in a znode."""
        return self.tools.use()

    async def _damage_znodes(self) -> bool:
        """What stands in znodes is not Kafka's."""
        return self.znode_damage.do()


ZOOKEEPER_FAULTS: dict[str, Callable[[ZooKeeperFaultInjector], Awaitable[bool]]] = {
    "expire": ZooKeeperFaultInjector._expire,
    "expire-controller": ZooKeeperFaultInjector._expire_controller,
    "no-zookeeper": ZooKeeperFaultInjector._no_zookeeper,
    "ensemble-leader": ZooKeeperFaultInjector._ensemble_leader,
    "ensemble-away": ZooKeeperFaultInjector._ensemble_away,
    "lag": ZooKeeperFaultInjector._lag,
    "lost-answers": ZooKeeperFaultInjector._lost_answers,
    "tools": ZooKeeperFaultInjector._tools,
    "unseen": ZooKeeperFaultInjector._unseen,
    "damaged-znodes": ZooKeeperFaultInjector._damage_znodes,
}
