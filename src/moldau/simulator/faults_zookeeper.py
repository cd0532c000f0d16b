"""What breaks on the ZooKeeper plane only: sessions, answers, servers that lag, lead no more or cannot be reached.

Everything of faults.py breaks here too; the servers are hosts of the same net, so that cuts may leave them without a
majority, or a node without ZooKeeper. Read next: zookeeper_servers.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from moldau.simulator.cluster import Seat
from moldau.simulator.cluster_zookeeper import CHROOT, ZooKeeperCluster
from moldau.simulator.damage_zookeeper import ZnodeDamage
from moldau.simulator.faults import FAULTS, LASTING_S, Chaos
from moldau.simulator.looking_zookeeper import ZnodeEyes, plane_of
from moldau.simulator.tools_zookeeper import Tools
from moldau.simulator.zookeeper_servers import ELECTION_S
from moldau.zookeeper import paths

LINGER_S = (0.0, 0.0, 0.3, 3.0)
UNHEARD_S = 1.5
"""A lag in which much can happen that a controller hears of too late, and no session ends."""


class ZooKeeperChaos(Chaos):
    """The hand that breaks things, ZooKeeper among them."""

    def __init__(self, cluster: ZooKeeperCluster, eyes: ZnodeEyes) -> None:
        super().__init__(cluster, eyes)
        self.ensemble = cluster.ensemble
        self.tools = Tools(cluster, eyes)
        self.znode_damage = ZnodeDamage(cluster)

    async def run(self) -> None:
        """As on the other plane; then what stands in znodes is Kafka's again."""
        await super().run()
        self.znode_damage.take_back()

    async def trouble(self, name: str) -> bool:
        if name in ZOOKEEPER_FAULTS:
            return await ZOOKEEPER_FAULTS[name](self)
        return await FAULTS[name](self)

    def undone(self) -> list[str]:
        return self.tools.undone()

    def _hosts(self) -> list[str]:
        return [*super()._hosts(), *(server.name for server in self.ensemble.servers)]

    # ---- sessions

    async def _expire(self) -> bool:
        """A session that lives is ended by the servers."""
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
        self.cluster.tell(f"the session of {who} is ended, its znodes {f'{linger_s:g} s later' if linger_s else 'too'}")
        self.ensemble.expire(session, linger_s)
        return True

    def _may_leave(self, session: int) -> bool:
        """The atlas for sessions: who loses one leaves its ISRs. So the last who is whole keeps his, while a machine
        that lost its tail is registered as it was before, and would be all that is left of an ISR (seed 700024).
        """
        unheard = any(self._unheard(id) for id in self.lossy)
        leaves = {seat.id for seat in self.cluster.seats.values() if self._opened(session, seat)}
        return not unheard or self.may_crash(*leaves)

    def _unheard(self, id: int) -> bool:
        """Whether this machine is registered by an earlier life: nobody can know that it ended."""
        znode = self.ensemble.tree.znodes.get(CHROOT + paths.broker(id))
        return znode is not None and not self._opened(znode.owner, self.cluster.seats[id])

    async def _no_zookeeper(self) -> bool:
        """A node sees all others and no ZooKeeper: who leads there is a zombie soon."""
        host = self.rng.choice([seat.host for seat in self.cluster.seats.values()])
        servers = [server.name for server in self.ensemble.servers]
        links = {(host, one) for one in servers} | {(one, host) for one in servers}
        if self.rng.random() < 0.3:
            links = {link for link in links if link[1] == host}  # what it asks is done, and it never hears
        return await self._sever(links, f"{host} is cut off from ZooKeeper")

    async def _unseen(self) -> bool:
        """A machine loses power and is back before the controller has heard of it, which then rewrites states, for
        another broker dies, and loses its session: what it wrote is newer than a registration that it never knew."""
        controller = self.ensemble.tree.znodes.get(CHROOT + paths.CONTROLLER)
        free = [one for one in self.cluster.alive if one.id not in self.busy]
        ruling = [one for one in free if controller is not None and self._opened(controller.owner, one)]
        if controller is None or not ruling:
            return False
        rules = ruling[0]
        self.busy.add(rules.id)
        if (seat := self.crashable(loses=not self.plan.flush)) is not None:
            await self._bounce(seat, rules)
            await self._lose_another(controller.owner, seat)
        self.busy.discard(rules.id)
        return seat is not None

    async def _bounce(self, seat: Seat, rules: Seat) -> None:
        links = [(rules.host, seat.host), (seat.host, rules.host)]
        plane = plane_of(rules.node) if rules.node is not None else None
        if plane is not None and plane.zk.wire is not None:
            server = plane.zk.wire.server
            server.due_s = max(server.due_s, self.cluster.loop.time() + UNHEARD_S)
            links += [(seat.host, server.name), (server.name, seat.host)]  # it goes to one that is up to date
        mend = self.cluster.wires.sever(links)
        self.cluster.tell(f"{rules.host} hears nothing of {seat.host}, and late of ZooKeeper")
        self.cluster.kill(seat.id, power=self.rng)
        await self._wait(0.2 * self.rng.random())
        known = self._born(seat.id)
        self.cluster.start(seat.id)
        await self.cluster.until(lambda: self._born(seat.id) not in (known, None), UNHEARD_S / 2)
        self.cluster.loop.call_later(UNHEARD_S, mend)
        self.busy.discard(seat.id)

    def _opened(self, session: int, seat: Seat) -> bool:
        return self.ensemble.opened[session].owner is seat.owner

    def _born(self, id: int) -> int | None:
        znode = self.ensemble.tree.znodes.get(CHROOT + paths.broker(id))
        return None if znode is None else znode.born

    async def _lose_another(self, session: int, bounced: Seat) -> None:
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
        self.cluster.tell(f"ZooKeeper loses its leader, for {for_s:g} s")
        self.ensemble.lose_leader(for_s)
        await self._wait(for_s)
        return True

    async def _ensemble_away(self) -> bool:
        for_s = self.rng.choice(LASTING_S)
        self.cluster.tell(f"ZooKeeper serves nobody, for {for_s:g} s")
        self.ensemble.lose_leader(for_s)
        await self._wait(for_s)
        return True

    async def _lag(self) -> bool:
        """Reads are answered from what was true some time ago."""
        for server in self.ensemble.servers:
            server.lag_s = self.rng.choice((0.002, 0.05, 0.5, 3.0))
        self.cluster.tell(f"ZooKeeper's servers lag by up to {[server.lag_s for server in self.ensemble.servers]} s")
        await self.last()
        for server in self.ensemble.servers:
            server.lag_s = 0.002
        return True

    async def _lost_answers(self) -> bool:
        self.ensemble.flaky = self.rng.choice((0.02, 0.1, 0.4))
        self.cluster.tell(f"{self.ensemble.flaky:.0%} of what is asked of ZooKeeper is lost, and as many answers")
        await self.last()
        self.ensemble.flaky = 0.0
        self.cluster.tell("ZooKeeper answers again")
        return True

    async def _tools(self) -> bool:
        """A tool of the ZooKeeper era leaves a request in a znode."""
        return self.tools.use()

    async def _damage_znodes(self) -> bool:
        """What stands in znodes is not Kafka's."""
        return self.znode_damage.do()


ZOOKEEPER_FAULTS: dict[str, Callable[[ZooKeeperChaos], Awaitable[bool]]] = {
    "expire": ZooKeeperChaos._expire,
    "expire-controller": ZooKeeperChaos._expire_controller,
    "no-zookeeper": ZooKeeperChaos._no_zookeeper,
    "ensemble-leader": ZooKeeperChaos._ensemble_leader,
    "ensemble-away": ZooKeeperChaos._ensemble_away,
    "lag": ZooKeeperChaos._lag,
    "lost-answers": ZooKeeperChaos._lost_answers,
    "tools": ZooKeeperChaos._tools,
    "unseen": ZooKeeperChaos._unseen,
    "damaged-znodes": ZooKeeperChaos._damage_znodes,
}
