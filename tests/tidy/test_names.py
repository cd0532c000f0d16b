"""One noun names one concept: public classes with the same name do not become more."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "src" / "moldau"
OF_KAFKAS_SCHEMAS = ("wire/messages/", "wire/records/")
"""Where classes have the names of Kafka's schemas, which repeat themselves."""
SAME_IDEA = {
    "Broker": 2, "Cluster": 2, "ConfigSource": 2, "Connection": 2, "ElectionType": 2, "Member": 2, "NewTopic": 2,
    "Partition": 3, "Producer": 2, "Progress": 2, "Refused": 2, "ResourceType": 2, "Sight": 2, "Subscription": 2,
    "Tick": 2, "Topic": 2, "TopicsDeleted": 2, "Truncate": 2, "Unreachable": 2, "WithImage": 4, "WithReplicas": 4,
}  # fmt: skip
"""Public class -> how many modules may define it, where all mean one thing: what a client shows of it and what the
cluster keeps (Kafka's own clients and server repeat these names, too), what each of two state machines calls the same
event or effect, and what each part asks of the node around it. These numbers may only go down."""


def public_classes() -> dict[str, list[str]]:
    """Return public class name -> the modules that define a class of that name at their top level."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        module = str(path.relative_to(ROOT))
        if module.startswith(OF_KAFKAS_SCHEMAS):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return found


def test_public_class_names_are_not_defined_in_more_modules_than_before() -> None:
    more = {name: modules for name, modules in public_classes().items() if len(modules) > SAME_IDEA.get(name, 1)}
    assert not more, "one noun, one concept: call the new class otherwise:\n" + "\n".join(
        f"{name}: {', '.join(modules)}" for name, modules in more.items()
    )


def test_the_lists_name_nothing_that_is_defined_less_often() -> None:
    found = public_classes()
    less = {name: len(found[name]) for name, most in SAME_IDEA.items() if len(found[name]) < most}
    assert not less, "lower these: they may become homonyms again"
