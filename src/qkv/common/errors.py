"""One sentence that names what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class QkvError(Exception):
    """Something failed; the command line prints the sentence and exits with `exit_code`."""

    exit_code = 1


class UsageError(QkvError):
    """The caller asked for something that does not exist or cannot be."""

    exit_code = 2


class StorageError(QkvError):
    """The system refused to read or write: no permission, no space, a disk that fails."""


class Shortened(UserWarning):
    """Some texts were too long and were cut; the command line adds up those of all batches.

    Attributes:
        cut: how many.
        number: of how many.
        what: what happened to what: "texts were cut to 12 tokens".
    """

    def __init__(self, cut: int, number: int, what: str) -> None:
        super().__init__(f"{cut} of {number} {what}")
        self.cut, self.number, self.what = cut, number, what


def unknown(kind: str, value: object, allowed: Iterable[object]) -> UsageError:
    """Return the error for a name that is not in a list, with the nearest one that is."""
    names = [str(name) for name in allowed]
    near = get_close_matches(value if isinstance(value, str) else show(value), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UsageError(f"unknown {kind} {show(value)}{hint} (allowed: {', '.join(names)})")


def show(value: object, length: int = 200) -> str:
    """Return a value as Python writes it, cut to a length that fits into a message."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of thousands of digits
        text = f"a {type(value).__name__} that is too large to print"
    return text if len(text) <= length else text[: length - 3] + "..."


def reason_of(error: OSError) -> str:
    """Return what the system says, without the number and the name."""
    return error.strerror or str(error) or type(error).__name__


@contextmanager
def system_errors() -> Iterator[None]:
    """Turn an error of the system into one sentence; also a decorator. A broken pipe is the caller's own to handle."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        place = f"{error.filename} cannot be used" if error.filename else "the system failed to read or write"
        raise StorageError(f"{place}: {reason_of(error)}") from error
