"""``python -m tests.fuzz``: fuzz a real cluster for a while; exit 1 with the seed when something must not be.

Each seed is a fresh cluster of three nodes and one kind of input (or all, turn by turn), with an innocent client, the
witness, beside it. What must hold is in ``target.py``; a stall is an answer to the witness that took over 100 ms, less
what the machine kept from the node.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from moldau.cluster.mode_option import add_mode
from moldau.cluster.modes import mode_of
from tests.fuzz.batches import BatchFuzzer
from tests.fuzz.configs import ConfigFuzzer
from tests.fuzz.files import FileFuzzer
from tests.fuzz.frames import FrameFuzzer
from tests.fuzz.target import Found, Target

STALL_MS = 100
CLUSTER_S = 60.0
RSS_MIB = 400


class Fuzzer(Protocol):
    """Sends or breaks one kind of thing."""

    def round(self) -> int: ...

    def close(self) -> None: ...


FUZZERS: dict[str, Callable[[Target, random.Random], Fuzzer]] = {
    "frames": FrameFuzzer, "batches": BatchFuzzer, "configs": ConfigFuzzer, "files": FileFuzzer,
}  # fmt: skip


class Told(NamedTuple):
    """What came of one cluster."""

    counts: Counter[str]
    worst_ms: float
    rss_mib: int
    acknowledged: int
    stalls: list[tuple[int, float, float]]


def fuzz_one(seed: int, kinds: list[str], seconds: float, folder: Path, plane: str) -> Told:
    """Fuzz one cluster for a while and return what was counted; Found when something must not be."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    with Target(folder, rng, plane=plane) as target:
        fuzzers = {name: FUZZERS[name](target, random.Random(f"{seed} {name}")) for name in kinds}
        ends = time.monotonic() + seconds
        try:
            while time.monotonic() < ends:
                name = rng.choice(kinds)
                fuzzer = fuzzers[name]
                if isinstance(fuzzer, FileFuzzer) and rng.random() < 0.1:
                    counts["metadata files"] += fuzzer.metadata_round()
                    continue
                for _ in range(1 if name == "files" else 20):
                    counts[name] += fuzzer.round()
                target.check()
        finally:
            for fuzzer in fuzzers.values():
                fuzzer.close()
        target.check()
        said = target.testimony()
        stalls = [(int(id), at, ms) for id, at, ms in said["late"] if ms > STALL_MS]
        return Told(counts, said["worst_ms"], target.rss_mib, said["acknowledged"], stalls)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long, all clusters together (30)")
    parser.add_argument("--seed", type=int, default=None, help="the first cluster's seed; the next ones count up")
    parser.add_argument("--cluster-s", type=float, default=CLUSTER_S, help="how long one cluster is fuzzed (60)")
    parser.add_argument("--stall-ms", type=float, default=STALL_MS, help="answers later than this are found; 0: none")
    parser.add_argument("--kinds", default=",".join(FUZZERS), help=f"which kinds of input ({','.join(FUZZERS)})")
    add_mode(parser)
    parser.add_argument("--keep", action="store_true", help="keep the folder of a cluster in which something was found")
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    first, total, worst_ms, rss_mib, acknowledged = seed, Counter[str](), 0.0, 0, 0
    ends = time.monotonic() + 60 * given.minutes
    faults: list[str] = []
    while time.monotonic() < ends:
        folder = Path(tempfile.mkdtemp(prefix="moldau-fuzz-"))
        chosen = kinds if (seed - first) % 2 == 0 or len(kinds) == 1 else [kinds[(seed - first) // 2 % len(kinds)]]
        repeat = (
            f"python -m tests.fuzz --seed {seed} --kinds {','.join(chosen)} --minutes 1 --mode {mode_of(given.plane)}"
        )
        seconds = max(min(given.cluster_s, ends - time.monotonic()), 5.0)
        keep = False
        try:
            told = fuzz_one(seed, chosen, seconds, folder / "cluster", given.plane)
            total += told.counts
            worst_ms, rss_mib = max(worst_ms, told.worst_ms), max(rss_mib, told.rss_mib)
            acknowledged += told.acknowledged
            counts = ", ".join(f"{name} {count:,}" for name, count in sorted(told.counts.items()))
            print(f"seed {seed}: {counts}; longest answer {told.worst_ms} ms, {told.rss_mib} MiB", flush=True)
            for id, at, ms in told.stalls if given.stall_ms else ():
                if ms <= given.stall_ms:
                    continue
                faults.append(f"seed {seed}: node {id} stalled {ms:.0f} ms at {time.strftime('%T', time.gmtime(at))}")
            if told.rss_mib > RSS_MIB:
                faults.append(f"seed {seed}: a node took {told.rss_mib} MiB")
            keep = given.keep and bool(told.stalls)
        except Found as found:
            faults.append(f"seed {seed}: {found}")
            keep = given.keep
        if len(faults) and faults[-1].startswith(f"seed {seed}:"):
            print(f"FOUND {faults[-1]}\nreproduce: {repeat}" + (f"\nkept: {folder}" if keep else ""), flush=True)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
        seed += 1
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(total.items()))
    print(f"fuzz: seeds {first} to {seed - 1}: {counts}; {acknowledged:,} acknowledged and read back;"
          f" longest answer {worst_ms} ms; most memory {rss_mib} MiB; {len(faults)} found")  # fmt: skip
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
