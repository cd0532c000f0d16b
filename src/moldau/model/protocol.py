"""``Protocol``, the same as typing's to every type checker, at half of what typing's costs to define.

typing.Protocol makes a class of a metaclass of its own and looks through its bases and names for ``isinstance``, which
nothing here asks. A broker loads a hundred such classes, and no instance of one is ever made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol as Protocol
else:

    class Protocol:
        """What a part asks of another, by methods and attributes: ``class Clock(Protocol): ...``."""

        __slots__ = ()

        def __class_getitem__(cls, parameters):
            return cls
