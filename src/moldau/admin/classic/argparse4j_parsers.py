"""What a tool of argparse4j takes: its options, their groups, its subcommands."""

from __future__ import annotations

from moldau.model.named import NamedTuple


class Argument(NamedTuple):
    """An option by its flags. ``takes``: None for one without a value; "" for one whose value is named after it.

    ``kind`` is Java's word for the type of a value that is no text; ``group`` the title under which help lists it, or
    the name of one of the parser's ``OptionGroup``s.
    """

    flags: tuple[str, ...]
    help: str
    takes: str | None = ""
    kind: str = ""
    required: bool = False
    default: str | None = None
    repeats: bool = False
    several: str = ""
    choices: tuple[str, ...] = ()
    group: str = ""
    mutex: str = ""

    @property
    def name(self) -> str:
        """Its name without hyphens: that of its first long flag."""
        flag = next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])
        return flag.lstrip("-")

    @property
    def shown(self) -> str:
        """How messages name it."""
        return "/".join(self.flags)


class OptionGroup(NamedTuple):
    """Options that help lists apart, with a text about them; ``title`` may be empty."""

    name: str
    title: str
    about: str


class Parser(NamedTuple):
    """A tool, or one of its subcommands. ``required_mutexes``: of each of these one option must be given."""

    prog: str
    description: str = ""
    arguments: tuple[Argument, ...] = ()
    commands: tuple[Parser, ...] = ()
    help: str = ""
    shows_defaults: bool = True
    required_mutexes: tuple[str, ...] = ()
    groups: tuple[OptionGroup, ...] = ()

    @property
    def all(self) -> tuple[Argument, ...]:
        """Its options with --help."""
        return (HELP, *self.arguments)


HELP = Argument(("-h", "--help"), "show this help message and exit", takes=None)
