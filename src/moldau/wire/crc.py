"""CRC32C, from the C extension of the crc32c package.

The package's ``__init__`` asks importlib.metadata for its own version and loads a command line besides: 20 ms of
processor time, a seventh of a broker's start, for two lines that nobody here reads. So the extension inside is loaded
by itself; where it is not found as expected, the package is imported as usual.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any


def _extension() -> Any:
    """The module ``crc32c._crc32c``, without the package around it."""
    package = PathFinder.find_spec("crc32c")
    inside = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if not inside or inside.loader is None:
        import crc32c

        return crc32c
    module = module_from_spec(inside)
    inside.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from crc32c import crc32c as crc32c
else:
    crc32c = _extension().crc32c
