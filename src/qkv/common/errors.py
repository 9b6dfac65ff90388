"""Errors for users: one sentence that says what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class QkvError(Exception):
    """An error for the user. The command line prints its message and exits with `exit_code`."""

    exit_code = 1


class UsageError(QkvError):
    """The caller passed something that does not exist or is not allowed."""

    exit_code = 2


class StorageError(QkvError):
    """Reading or writing failed: no permission, no space, or a disk error."""


class Shortened(UserWarning):
    """Some texts were too long and were truncated. The command line adds up the counts of all batches.

    Attributes:
        cut: the number of truncated texts.
        number: the number of all texts.
        what: the rest of the sentence, such as "texts were cut to 12 tokens".
    """

    def __init__(self, cut: int, number: int, what: str) -> None:
        super().__init__(f"{cut} of {number} {what}")
        self.cut, self.number, self.what = cut, number, what


class UnknownText(UserWarning):
    """A model cannot read many characters of the texts it is given."""


def unknown(kind: str, value: object, allowed: Iterable[object]) -> UsageError:
    """Return the error for an unknown name, with the closest allowed name as a suggestion."""
    names = [str(name) for name in allowed]
    near = get_close_matches(value if isinstance(value, str) else show(value), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UsageError(f"unknown {kind} {show(value)}{hint} (allowed: {', '.join(names)})")


def show(value: object, length: int = 200) -> str:
    """Return the repr of a value, shortened to fit into a message."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of thousands of digits
        text = f"a {type(value).__name__} that is too large to print"
    return text if len(text) <= length else text[: length - 3] + "..."


def reason_of(error: OSError) -> str:
    """Return the system's message without the error number and the file name."""
    return error.strerror or str(error) or type(error).__name__


@contextmanager
def system_errors() -> Iterator[None]:
    """Turn system errors into a one-sentence `StorageError`; also a decorator. Broken pipes are left to the caller."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        place = f"{error.filename} cannot be used" if error.filename else "reading or writing failed"
        raise StorageError(f"{place}: {reason_of(error)}") from error
