"""Generated texts as lines or blocks, and the most likely tokens of each step as bars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from rich.cells import cell_len

from qkv.predict.generated import Generated, Step

TOP = 5  # tokens to show for each step
WIDTH = 24  # characters of a bar that is certain
RULE = "---"
_BREAKS = re.compile(r"[\r\n]+")
_BLOCKS = " ▏▎▍▌▋▊▉█"


@dataclass
class Shown:
    """Formats the texts of one prompt after the other.

    Attributes:
        blocks: whether texts keep their line ends; otherwise each is one line.
        echo: whether the prompt comes before its text.
        several: whether there are several texts for each prompt; lines then begin with the number of the prompt.
    """

    blocks: bool
    echo: bool
    several: bool

    def __post_init__(self) -> None:
        self._numbers = count()

    def __call__(self, prompt: str, found: Generated) -> str:
        """Format the texts of a prompt."""
        number = next(self._numbers)
        rows = [self._one(prompt, one) for one in (found, *found.others)]
        if not self.blocks:
            return "\n".join(f"{number}\t{row}" if self.several else row for row in rows)
        return f"\n{RULE}\n".join(rows) if number == 0 else f"{RULE}\n" + f"\n{RULE}\n".join(rows)

    def _one(self, prompt: str, found: Generated) -> str:
        text = f"{prompt if self.echo else ''}{found.text}"
        if not self.blocks:
            text = _BREAKS.sub(" ", text)
        return text if found.steps is None else "\n".join([text, *bars(found.steps)])


def bars(steps: list[Step]) -> Iterator[str]:
    """Draw the most likely tokens of each step; an arrow marks the token that was taken."""
    names = [_name(choice.word) for step in steps for choice in step.choices]
    width = max(map(cell_len, names), default=0)
    for number, step in enumerate(steps, 1):
        yield f"{number:>4}  {_name(step.token)}"
        for choice in step.choices:
            name, taken = _name(choice.word), choice.word == step.token
            filled = " " * (width - cell_len(name))
            yield f"      {'→' if taken else ' '} {name}{filled} {bar(choice.score)} {100 * choice.score:5.1f} %"


def bar(share: float) -> str:
    """Draw a share of the whole, in eighths of a character."""
    eighths = round(min(max(share, 0.0), 1.0) * WIDTH * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_BLOCKS[rest] if rest else "")).ljust(WIDTH)


def _name(token: str) -> str:
    r"""Write a token on one line: spaces as dots, line ends as \n."""
    return token.encode("unicode_escape").decode("ascii") if not token.isprintable() else token.replace(" ", "·") or "∅"
