"""The levels of features that Apache Kafka 4.3.1 knows, by release: what its tools map, and what depends on what.

Facts of org.apache.kafka.server.common.MetadataVersion and Feature of Kafka 4.3.1.
"""

from __future__ import annotations

from moldau.admin.classic.argparse4j import Words
from moldau.admin.classic.argparse4j_parsers import Argument, Parser
from moldau.admin.classic.java import JavaError
from moldau.admin.classic.options import java_integer

METADATA = "metadata.version"
FIRST_LEVEL = 7
VERSIONS = tuple(
    f"{release}-IV{number}"
    for release, first, last in (
        ("3.3", 3, 3),
        ("3.4", 0, 0),
        ("3.5", 0, 2),
        ("3.6", 0, 2),
        ("3.7", 0, 4),
        ("3.8", 0, 0),
        ("3.9", 0, 0),
        ("4.0", 0, 3),
        ("4.1", 0, 1),
        ("4.2", 0, 1),
        ("4.3", 0, 0),
        ("4.4", 0, 0),
    )
    for number in range(first, last + 1)
)
"""By level, from FIRST_LEVEL on; the last is not finished."""
LATEST = "4.3-IV0"
FEATURES: dict[str, tuple[tuple[int, int], ...]] = {
    "kraft.version": ((21, 1),),
    "transaction.version": ((24, 2),),
    "group.version": ((22, 1),),
    "eligible.leader.replicas.version": ((26, 1),),
    "share.version": ((28, 1),),
    "streams.version": ((29, 1),),
}
"""Feature -> (metadata.version from which on, the level that is its default then)."""
HIGHEST = {name: defaults[-1][1] for name, defaults in FEATURES.items()}
NEEDS = {("eligible.leader.replicas.version", 1): ((METADATA, 23),)}


class TerseFailure(JavaError):
    """A failure that is told by its message alone."""

    def __init__(self, message: str) -> None:
        super().__init__("org.apache.kafka.tools.TerseException", message)


def level_of(release: str, *, finished: bool = False) -> int:
    """The metadata.version of a release; TerseFailure for one that there is not. ``finished``: list no others then."""
    stable = VERSIONS[: VERSIONS.index(LATEST) + 1]
    found = [at for at, name in enumerate(stable) if name.partition("-")[0] == release]
    if release in VERSIONS:
        return FIRST_LEVEL + VERSIONS.index(release)
    if found:
        return FIRST_LEVEL + found[-1]
    listed = ", ".join(stable if finished else VERSIONS)
    raise TerseFailure(f"Unknown metadata.version '{release}'. Supported metadata.version are: {listed}")


def version_of(level: int) -> str | None:
    """The name of a metadata.version, None when there is none of that level."""
    known = FIRST_LEVEL <= level < FIRST_LEVEL + len(VERSIONS)
    return VERSIONS[level - FIRST_LEVEL] if known else None


def default_level(feature: str, metadata_level: int) -> int:
    """The level of a feature in a cluster that is made with this metadata.version."""
    return next((level for since, level in reversed(FEATURES[feature]) if metadata_level >= since), 0)


def read_level(text: str) -> tuple[str, int]:
    """What ``feature=level`` says; TerseFailure when it does not say that."""
    name, equals, level = text.partition("=")
    if not equals:
        raise TerseFailure(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), java_integer(level.strip(), 16)
    except ValueError:
        why = f"unable to parse {level.strip()} as a short."
        raise TerseFailure(f"Can't parse feature=level string {text}: {why}") from None


def mapping_parser(*letters: str) -> Parser:
    """The subcommand version-mapping; ``letters`` are the short flags of its option."""
    text = (
        "The release version to use for the corresponding feature mapping. "
        f"The minimum is {VERSIONS[0]}; the default is {LATEST}"
    )
    about = (
        "Look up the corresponding features for a given metadata version. Using the command with no --release-version  "
        "argument will return the mapping for the latest stable metadata version"
    )
    option = Argument(("--release-version", *letters), text)
    return Parser("version-mapping", arguments=(option,), help=about, shows_defaults=False)


def dependencies_parser(text: str, *letters: str) -> Parser:
    """The subcommand feature-dependencies; ``text`` is what is said of its option."""
    about = (
        "Look up dependencies for a given feature version. If the feature is not known or the version not yet defined, "
        "an error is thrown. Multiple features can be specified."
    )
    option = Argument(("--feature", *letters), text, required=True, repeats=True)
    return Parser("feature-dependencies", arguments=(option,), help=about, shows_defaults=False)


def print_mapping(words: Words) -> None:
    """What version-mapping prints."""
    release = words.value("release-version") or (LATEST if not words.has("release-version") else "")
    level = level_of(release)
    print(f"{METADATA}={level} ({release})")
    for feature in FEATURES:
        print(f"{feature}={default_level(feature, level)}")


def print_dependencies(words: Words) -> None:
    """What feature-dependencies prints."""
    for text in words.values("feature"):
        name, level = read_level(text)
        if name == METADATA:
            if version_of(level) is None:
                raise TerseFailure(f"Unknown {METADATA} {level}")
            print(f"{METADATA}={level} ({version_of(level)}) has no dependencies.")
            continue
        if name not in FEATURES:
            raise TerseFailure(f"Unknown feature: {name}")
        if not 0 <= level <= HIGHEST[name]:
            raise TerseFailure(f"No feature:{name} with feature level {level}")
        needs = NEEDS.get((name, level), ())
        print(f"{name}={level} {'requires:' if needs else 'has no dependencies.'}")
        for needed, least in needs:
            print(f"    {needed}={least} ({version_of(least)})")
