"""Facts about files that take a pass over them, kept in memory while the files stay the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from qkv.data.files import digest_of, expand, stored_file

MOST = 32  # facts
T = TypeVar("T")
_FACTS: OrderedDict[tuple[str, ...], Any] = OrderedDict()


def remembered(what: str, paths: Sequence[str], make: Callable[[], T], *how: object) -> T:
    """Return a fact about some files, and make it only if the files or `how` they are read have changed.

    Args:
        what: the name of the fact.
        paths: the files, or patterns; a name that is no file, such as that of a built-in corpus, stands for itself.
        make: finds the fact.
        how: everything else that the fact depends on; compared by its representation.
    """
    files = (digest_of(path) if stored_file(path).exists() else path for path in expand(paths))
    key = (what, *files, *map(repr, how))
    if key not in _FACTS:
        _FACTS[key] = make()
        while len(_FACTS) > MOST:
            _FACTS.popitem(last=False)
    found: T = _FACTS[key]
    return found
