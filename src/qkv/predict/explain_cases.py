"""What there is to explain: the answers of a model to a text, each with its tokens, its words and how it is scored.

One builder for each verb: the label of a text, the tag of a word, a span of a context, the word at a mask, the
translation of a sentence, the next word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from qkv.common.errors import UsageError, unknown
from qkv.data.iob import iob2, spans_of
from qkv.insight.answer_scores import Answer, LabelAnswer, NumberAnswer, SpanAnswer, TokenAnswer, TranslationAnswer
from qkv.predict.alignment import words_said
from qkv.predict.answer import answer
from qkv.predict.explain_reading import Read, Texts, read_texts, read_window
from qkv.predict.finite import finite
from qkv.predict.places import Place
from qkv.predict.runner import Runner
from qkv.predict.tag import has_entities
from qkv.predict.texts import readable
from qkv.predict.translate import check_translator, translate
from qkv.predict.translation import cut_texts
from qkv.predict.verbs import names_of, reader
from qkv.tokenizers.questions import question_windows
from qkv.tokenizers.windows import Window


@dataclass(frozen=True)
class Case:
    """One answer to explain.

    Attributes:
        read: what the model read.
        verb: what it did.
        said: its answer in words.
        answer: how the answer is scored.
        chance: its probability, or None.
        place: where it is, in characters.
    """

    read: Read
    verb: str
    said: str
    answer: Answer
    chance: float | None = None
    place: Place | None = None


Builder = Callable[[Runner, Texts, Texts | None, str | None], Iterator[Case]]


def classified(model: Runner, texts: Texts, pairs: Texts | None, of: str | None) -> Iterator[Case]:
    """Yield the label of each text, or the label `of`; of a model that gives several, each one that it gives."""
    reads = read_texts(model, "classify", texts, pairs)
    number = "classify" not in model.config.heads
    if number and of is not None:
        raise UsageError("this model predicts a number for each text: it has no label to choose")
    names = names_of(model)
    wanted = None if of is None else _index(names, of)
    for read, logits in zip(reads, _logits(model, reads, "regress" if number else "classify"), strict=True):
        if number:
            yield Case(read, "classify", f"{float(logits):.4f}", NumberAnswer())
            continue
        chances = logits.sigmoid() if model.multi_label else logits.softmax(-1)
        chosen = [int(chances.argmax())] if wanted is None else [wanted]
        if wanted is None and model.multi_label:
            chosen = [i for i, chance in enumerate(chances.tolist()) if chance > model.threshold] or chosen
        for index in chosen:
            scored = LabelAnswer(index, model.multi_label)
            yield Case(read, "classify", names[index], scored, float(chances[index]))


def tagged(model: Runner, texts: Texts, pairs: Texts | None, of: str | None) -> Iterator[Case]:
    """Yield each entity by the tag of its first word, or each word's tag if tags are not of entities."""
    _alone("tag", pairs)
    reads = read_texts(model, "tag", texts)
    names = names_of(model)
    kinds = dict.fromkeys([*names, *(iob2(name).partition("-")[2] or name for name in names)])
    if of is not None and of not in kinds:
        raise unknown("tag", of, kinds)
    for read, logits in zip(reads, _logits(model, reads, "tag"), strict=True):
        chances = logits.softmax(-1)
        firsts = [read.word_of.index(word) for word in range(len(read.words))]
        tags = [names[int(chances[row].argmax())] for row in firsts]
        spans = (
            spans_of([iob2(tag) for tag in tags]) if has_entities(names) else [(t, i, i) for i, t in enumerate(tags)]
        )
        for label, first, last in spans:
            if of in (None, label, tags[first]):
                (_, start, _), (_, _, end) = read.words[first], read.words[last]
                row = firsts[first]
                scored = TokenAnswer("tag", row, names.index(tags[first]))
                said = f"{read.texts[0][start:end]}: {label}"
                yield Case(read, "tag", said, scored, float(chances[row].max()), (start, end))


def answered(model: Runner, texts: Texts, pairs: Texts | None, of: str | None) -> Iterator[Case]:
    """Yield the answer to each question, or the piece `of` of its context; `pairs` are the contexts."""
    if pairs is None:
        raise UsageError("an answer needs a context: give the contexts as the second texts")
    tokenizer = reader(model, "answer", texts)
    limit = min(384, model.max_length or 384)
    for number, (question, context) in enumerate(zip(texts, readable(pairs), strict=True)):
        found = answer(model, [question], [context])[0]
        start, end, chance = found.start, found.end, found.score
        if of is not None:
            start, chance = context.find(of), math.nan
            end = start + len(of)
            if start < 0 or not of.strip():
                raise UsageError(f"{of!r} is not in the context")
        ((several,), _) = question_windows(tokenizer, [question], [context], limit)
        read, scored = _best_window(model, number, (question, context), several, (start, end))
        said = context[start:end] or "no answer"
        yield Case(read, "answer", said, scored, None if math.isnan(chance) else chance, (start, end))


def _best_window(
    model: Runner, number: int, texts: tuple[str, str], windows: Sequence[Window], place: Place
) -> tuple[Read, SpanAnswer]:
    """Return the window in which a span scores best; no answer is the first token of the first window."""
    spans = [_span(window, place) for window in windows]
    held = [i for i, span in enumerate(spans) if span is not None] or [0]
    logits = model.logits([windows[i].ids for i in held], segments=[windows[i].segments for i in held], head="span")
    scored = [spans[i] or (0, 0) for i in held]
    sums = [float(one[a, 0] + one[b, 1]) for one, (a, b) in zip(logits, scored, strict=True)]
    best = sums.index(max(sums))
    return read_window(number, texts, windows[held[best]]), SpanAnswer(*scored[best])


def _span(window: Window, place: Place) -> tuple[int, int] | None:
    """Return the first and the last token of a piece of the context, if the window holds it."""
    start, end = place
    rows = [r for r, ((a, b), side) in enumerate(zip(window.spans, window.sides, strict=True))
            if side == 1 and a < end and b > start]  # fmt: skip
    whole = rows and window.spans[rows[0]][0] <= start and window.spans[rows[-1]][1] >= end
    return (rows[0], rows[-1]) if whole else None


def filled(model: Runner, texts: Texts, pairs: Texts | None, of: str | None) -> Iterator[Case]:
    """Yield the most likely word at each mask, or the word `of`."""
    _alone("fill", pairs)
    reads = read_texts(model, "fill", texts)
    tokenizer = model.tokenizer
    assert tokenizer is not None
    mask, own = tokenizer.specials.get("mask"), tokenizer.token_of(tokenizer.specials.get("mask", 0))
    if mask is None:
        raise UsageError("this model's tokenizer has no mask token: there is nothing to fill")
    wanted = None if of is None else _one_token(model, of)
    for read in reads:
        rows = [row for row, token in enumerate(read.ids) if token == mask]
        if not rows:
            raise UsageError(f"no mask in {read.texts[0][:60]!r}: write {own} where you want a word")
    for read, logits in zip(reads, _logits(model, reads, "mlm"), strict=True):
        for row in (row for row, token in enumerate(read.ids) if token == mask):
            place = read.words[read.word_of[row]][1:] if read.word_of[row] >= 0 else None
            yield _word_case(model, read, "fill", TokenAnswer("mlm", row, 0), logits[row], wanted, place)


def followed(model: Runner, texts: Texts, pairs: Texts | None, of: str | None) -> Iterator[Case]:
    """Yield the most likely next token of each text, or the token `of`."""
    _alone("continue", pairs)
    reads = read_texts(model, "next", texts)
    wanted = None if of is None else _one_token(model, f" {of.strip()}", of)
    if empty := [read.number for read in reads if not read.ids]:
        raise UsageError(f"text {empty[0]} is empty: there is no word that another could follow")
    for read, logits in zip(reads, _logits(model, reads, "lm"), strict=True):
        yield _word_case(model, read, "next", TokenAnswer("lm", None, 0), logits[-1], wanted, None)


def translated(model: Runner, texts: Texts, pairs: Texts | None, of: str | None) -> Iterator[Case]:
    """Yield the translation of each sentence, as `translate` splits them; `of` is the translation of a single one."""
    _alone("translate", pairs)
    tokenizer = check_translator(model)
    cleaned = readable(texts)
    for number, pieces in enumerate(cut_texts(tokenizer, cleaned, model.max_length)):
        there = [piece for piece in pieces if piece.ids]
        if of is not None and len(there) != 1:
            raise UsageError(f"text {number} is translated in {len(there)} parts: `of` is for a text of one part")
        shift = 0
        for piece in pieces:
            if piece.ids:
                ids, said = _translation(model, piece.text) if of is None else _given(model, of)
                ((window,),) = tokenizer.encode_spans([piece.text])
                whole = read_window(number, (cleaned[number][: shift + len(piece.text)],), window, shift)
                read = Read(number, (cleaned[number],), whole.ids, whole.segments, whole.words, whole.word_of)
                yield Case(read, "translate", said, TranslationAnswer(ids, model.config.start_id))
            shift += len(piece.text) + len(piece.space)


def by_word(model: Runner, case: Case) -> Iterator[Case]:
    """Split the case of a translation into one for each of its words, given the words before it."""
    if not isinstance(case.answer, TranslationAnswer):
        raise UsageError(f"only translations are explained word by word, and this model can {case.verb}")
    assert model.tokenizer is not None
    words = case.said.split()
    of = words_said(model.tokenizer, list(case.answer.ids))
    for number, word in enumerate(words):
        only = tuple(place for place, owner in enumerate(of) if owner == number)
        if only:
            yield replace(case, said=word, answer=replace(case.answer, only=only))


def _translation(model: Runner, text: str) -> tuple[tuple[int, ...], str]:
    assert model.tokenizer is not None
    (found,) = translate(model, [text])
    ids = [model.tokenizer.id_of(token) for token in found.tokens]
    return tuple(i for i in ids if i is not None), found.text


def _given(model: Runner, of: str) -> tuple[tuple[int, ...], str]:
    assert model.tokenizer is not None
    end, specials = model.config.end_id, model.tokenizer.specials
    special = {number for role, number in specials.items() if role != "unk"}
    ids = [number for number in model.tokenizer.encode([of]).ids[0] if number not in special]
    if not ids:
        raise UsageError(f"the translation {of!r} has no tokens in the vocabulary")
    return (*ids, end), of


def _word_case(
    model: Runner, read: Read, verb: str, at: TokenAnswer, logits: Tensor, wanted: int | None, place: Any
) -> Case:
    """Make the case of a word of the vocabulary."""
    tokenizer = model.tokenizer
    assert tokenizer is not None
    chances = logits[: tokenizer.vocab_size].softmax(-1)
    index = int(chances.argmax()) if wanted is None else wanted
    said = tokenizer.decode([index]).strip() or tokenizer.token_of(index) or ""
    return Case(read, verb, said, TokenAnswer(at.head, at.row, index), float(chances[index]), place)


def _one_token(model: Runner, *words: str) -> int:
    """Return the token of a word, in the first spelling that is one token."""
    assert model.tokenizer is not None
    special = {number for role, number in model.tokenizer.specials.items() if role != "unk"}
    for word in words:
        ids = [number for number in model.tokenizer.encode([word]).ids[0] if number not in special]
        if len(ids) == 1 and ids[0] != model.tokenizer.specials.get("unk"):
            return ids[0]
    raise UsageError(f"{words[-1]!r} is not one token of this model's vocabulary: choose a word that is")


def _logits(model: Runner, reads: Sequence[Read], head: str) -> list[Tensor]:
    if not reads:
        return []
    found = model.logits([read.ids for read in reads], segments=[read.segments for read in reads], head=head)
    return [finite(one).float().cpu() for one in found]


def _index(names: Sequence[str], of: str) -> int:
    if of not in names:
        raise unknown("label", of, names)
    return names.index(of)


def _alone(verb: str, pairs: Texts | None) -> None:
    if pairs is not None:
        raise UsageError(f"a model that can {verb} reads single texts: leave out the second ones")


BUILDERS: Mapping[str, Builder] = {
    "classify": classified,
    "tag": tagged,
    "answer": answered,
    "fill": filled,
    "translate": translated,
    "next": followed,
}
