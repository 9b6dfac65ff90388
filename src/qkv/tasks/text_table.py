"""Texts or pairs of texts from the rows of a table, for classification and regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from qkv.data.bad_rows import BadRows
from qkv.data.columns import as_name
from qkv.data.config import DataConfig
from qkv.data.examples import Classified, Rated
from qkv.data.files import expand
from qkv.data.labelled import find_columns
from qkv.data.split import sentence_key
from qkv.data.unanswered import read_texts
from qkv.tasks.base import Context, Say, Task
from qkv.tasks.batches import limit_of
from qkv.tasks.exam import Exam

Example = Classified | Rated


def columns(data: DataConfig) -> dict[str, Any]:
    """Return the columns and format that a recipe sets; missing ones are detected."""
    named = {"text": data.text, "second": data.second, "label": data.label, "format": data.format}
    return {key: value or None for key, value in named.items()} | {"encoding": data.encoding}


class TextTableTask(Task):
    """One text or pair of texts per row; the columns of a table are detected."""

    keeps_length: ClassVar[bool] = True
    starts_from_encoder: ClassVar[bool] = True
    answerable: ClassVar[bool] = True
    has_numbers: ClassVar[bool] = False  # the label column holds numbers

    def resolved(self, say: Say) -> Self:
        """Detect columns that the recipe does not set in the first training file, and report them."""
        data = self.data
        if data.text and data.label:
            return self
        path = expand(data.train)[0]
        found = find_columns(path, **columns(data), number=self.has_numbers)
        hint = ", guessed from the values; set data.text and data.label to change this" if found.guessed else ""
        say(f"{path}: {found}{hint}")
        if not found.guessed:
            return self
        text, second, label = (as_name(column) for column in (found.text, found.second, found.label))
        return replace(self, data=replace(data, text=text, second=second, label=label))

    def texts(self, example: Example) -> Iterable[str]:
        """Return the text, or both texts of a pair."""
        return (example.text,) if example.second is None else (example.text, example.second)

    def key(self, example: Example) -> str:
        """Hold out by the text, or by both texts of a pair."""
        return sentence_key(f"{example.text}\n{example.second or ''}")

    def encoded(self, examples: Sequence[Example], context: Context) -> Iterator[dict[str, Any]]:
        """Tokenise texts and pairs, truncated to the maximum length; segments are kept if the model has them."""
        limit, found = limit_of(context, self.data.max_length), dict[int, dict[str, Any]]()
        for paired in (False, True):
            some = [number for number, example in enumerate(examples) if (example.second is not None) == paired]
            seconds = [examples[number].second or "" for number in some] if paired else None
            encoded = context.text.encode([examples[number].text for number in some], seconds, max_length=limit)
            for number, ids, segments in zip(some, encoded.ids, encoded.segments, strict=True):
                found[number] = {"ids": ids} | ({"segments": segments} if context.num_segments > 1 else {})
        return (found[number] for number in range(len(examples)))

    def classified(self, exam: Exam, examples: Iterable[Example]) -> Iterator[tuple[Any, Any]]:
        """Yield each example with the prediction of the model's `classify`."""
        for chunk in exam.chunks(examples):
            yield from zip(chunk, self.said(exam.model, chunk), strict=True)

    def said(self, model: Any, examples: Sequence[Example]) -> list[Any]:
        """Return the predictions of the model's `classify`, in the order of the examples."""
        found: dict[int, Any] = {}
        for paired in (False, True):
            some = [number for number, example in enumerate(examples) if (example.second is not None) == paired]
            seconds = [examples[number].second or "" for number in some] if paired else None
            if some:
                found |= zip(some, model.classify([examples[number].text for number in some], seconds), strict=True)
        return [found[number] for number in range(len(examples))]

    def unanswered(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Example]:
        """Read texts, or pairs of texts."""
        for where, texts in read_texts(paths, self.data, skipped, pair=True if self.data.second else None):
            yield self.blank(texts[0], texts[1] if len(texts) > 1 else None, where)

    def blank(self, text: str, second: str | None, where: str) -> Example:
        """Return an example without an answer."""
        raise NotImplementedError

    def record(self, example: Example) -> dict[str, Any]:
        """Return the columns that the recipe names, or names that are detected."""
        data, pair = self.data, example.second is not None
        found: dict[str, Any] = {data.text or ("sentence1" if pair else "text"): example.text}
        if pair:
            found[data.second or "sentence2"] = example.second
        return found | {data.label or "label": self.answer(example)}

    def answer(self, example: Any) -> Any:
        """Return the label or the number of an example."""
        raise NotImplementedError
