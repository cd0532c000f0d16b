"""Lines of state-change logs about partition orders-0, as brokers and controllers write them."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.clusterdata.state_changes.eras import Event, parse

FIRST, SECOND = "D02HYqjbSi2FaUtpjen07A", "wKTuNLWlSMK04IsaZrg7CQ"


def line(second: float, text: str, level: str = "INFO") -> str:
    return f"[2026-11-27 13:41:{int(second):02d},{round(second % 1 * 1000):03d}] {level} {text} (state.change.logger)"


def by_controller(
    second: float,
    epochs: tuple[int, int],
    leader: int,
    isr: Iterable[int],
    *,
    come: str = "OnlinePartition",
    recovery: str = "RECOVERED",
    who: str = "[Controller id=1 epoch=3]",
) -> str:
    """A decision as a ZooKeeper controller of Moldau's and Kafka 3.9's writes it; ``epochs``: leader's, partition's."""
    ids = ", ".join(f"BrokerState(brokerId={id}, brokerEpoch=-1)" for id in isr)
    return line(
        second,
        f"{who} Changed partition orders-0 from {come} to OnlinePartition with state LeaderAndIsr(leader={leader},"
        f" leaderEpoch={epochs[0]}, isrWithBrokerEpoch=List({ids}), leaderRecoveryState={recovery},"
        f" partitionEpoch={epochs[1]})",
    )


def assigned(second: float, replicas: str) -> str:
    return line(
        second,
        "[Controller id=1 epoch=3] Changed partition orders-0 state from NonExistentPartition to NewPartition with"
        f" assigned replicas {replicas}",
    )


def shrunk(second: float, epochs: tuple[int, int], leader: int, isr: str, gone: int) -> str:
    return line(
        second,
        f"[Controller id=1 epoch=3] Partition orders-0 state changed to (Leader:{leader},ISR:{isr},"
        f"LeaderRecoveryState:RECOVERED,LeaderEpoch:{epochs[0]},ZkVersion:{epochs[1]},ControllerEpoch:3) after removing"
        f" replica {gone} from the ISR as part of transition to OfflineReplica",
    )


def by_leader(
    second: float, epochs: tuple[int, int], leader: int, isr: str, adding: str = "", removing: str = "", id: str = FIRST
) -> str:
    """What a broker of Moldau's, and of Kafka 3.9 and 4.3, writes of a partition that it leads."""
    return line(
        second,
        f"[Broker id={leader}] Leader orders-0 with topic id Some({id}) starts at leader epoch {epochs[0]} from offset"
        f" 0 with partition epoch {epochs[1]}, high watermark 0, ISR [{isr}], adding replicas [{adding}] and removing"
        f" replicas [{removing}] . Previous leader Some(1) and previous leader epoch was 0.",
    )


def by_follower(second: float, epochs: tuple[int, int], node: int, leader: int) -> str:
    return line(
        second,
        f"[Broker id={node}] Follower orders-0 starts at leader epoch {epochs[0]} from offset 7 with partition epoch"
        f" {epochs[1]} and high watermark 7. Current leader is {leader}. Previous leader Some(1) and previous leader"
        " epoch was 0.",
    )


def events(*lines: str) -> list[Event]:
    found = [parse(one.encode()) for one in sorted(lines, key=lambda one: one[:25])]
    return [one for one in found if one is not None]
