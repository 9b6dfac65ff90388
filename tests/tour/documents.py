"""Reads the documentation as a user does: runs its blocks, and compares what they print with what is shown."""

from __future__ import annotations

import io
import math
import re
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "qkv"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d*)?(?:e[+-]?\d+)?")


def blocks(document: str, *languages: str) -> list[tuple[int, str]]:
    """Return the fenced blocks of some languages, each with the number of lines before it."""
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", document, re.DOTALL | re.MULTILINE)
    return [(document[: m.start(2)].count("\n"), m[2]) for m in found if m[1] in languages]


def shown_after(document: str) -> dict[int, str]:
    """Return the text blocks that follow a Python block at once, by the number of lines before that block."""
    found = re.finditer(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", document, re.DOTALL | re.MULTILINE)
    return {document[: m.start(1)].count("\n"): m[2].rpartition("```text\n")[2] for m in found if "```" not in m[1]}


def run_python(document: str, name: str, folder: Path) -> None:
    """Run the Python blocks of a document in one namespace; an error points to the document's own line.

    A text block that follows a Python block at once is what it prints.
    """
    namespace: dict[str, object] = {"__name__": name}
    shown = shown_after(document)
    for lines_before, code in blocks(document, "python"):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile("\n" * lines_before + code.replace("FOLDER", str(folder)), name, "exec"), namespace)
        if lines_before in shown:
            said = printed.getvalue()
            assert alike(said, shown[lines_before]), f"{name}, line {lines_before}: the block prints\n{said}"


def alike(one: str, other: str, tolerance: float = 0.05) -> bool:
    """Whether two texts have the same words, and numbers that differ by no more than rounding and another CPU do."""
    words = (NUMBER.sub(" # ", text).split() for text in (one, other))
    numbers = ([float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (one, other))
    return next(words) == next(words) and all(
        math.isclose(a, b, rel_tol=tolerance, abs_tol=0.011 if max(a, b) > 1e-3 else 0)
        for a, b in zip(next(numbers), next(numbers), strict=True)
    )
