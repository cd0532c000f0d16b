"""One noun names one concept: public classes with the same name do not become more."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "src" / "moldau"
PACKAGES = (
    "broker", "client", "cluster", "controller", "groups", "history", "image", "model", "ports", "quorum",
    "replication", "runtime", "simulator", "storage", "zookeeper",
)  # fmt: skip
DEFINED_MORE_THAN_ONCE = {
    "Asked": 2, "Assignment": 2, "Broker": 2, "Client": 3, "Cluster": 2, "Commit": 2, "Committed": 2,
    "Connection": 2, "Controller": 2, "Coordinator": 2, "Decided": 2, "Delivery": 2, "Draft": 2, "Election": 2,
    "Endpoint": 2, "Heartbeat": 2, "History": 2, "Index": 2, "Kind": 2, "Known": 2, "Left": 2, "Limits": 3,
    "Listener": 2, "Loaded": 2, "Member": 2, "Membership": 2, "Migration": 2, "NewTopic": 2, "Node": 2,
    "Outcome": 3, "Partition": 3, "Plane": 2, "Producer": 3, "Progress": 3, "Proposal": 2, "Refused": 5, "Resource": 2,
    "Sender": 2, "Sent": 2, "Session": 2, "Setting": 2, "Sight": 2, "Slot": 2, "Source": 3, "Stage": 2, "Sync": 2,
    "Taken": 2, "Tick": 2, "Topic": 2, "TopicsDeleted": 2, "Truncate": 2, "Unreachable": 2, "WithImage": 4,
    "WithReplicas": 4, "Written": 2,
}  # fmt: skip
"""Public class -> how many modules may define it. Lower a number, or remove the name, when there are fewer."""


def public_classes() -> dict[str, list[str]]:
    """Return public class name -> the modules that define a class of that name at their top level."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_public_class_names_are_not_defined_in_more_modules_than_before() -> None:
    more = {
        name: modules
        for name, modules in public_classes().items()
        if len(modules) > DEFINED_MORE_THAN_ONCE.get(name, 1)
    }
    assert not more, "one noun, one concept: call the new class otherwise:\n" + "\n".join(
        f"{name}: {', '.join(modules)}" for name, modules in more.items()
    )
