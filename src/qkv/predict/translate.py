"""Translation: split texts into pieces, decode the pieces in batches, and join them in the original order.

texts ─► pieces (cut at sentences where long) ─► batches ─► generate ─► words ─► joined with their white space
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from qkv.checkpoints.text_tasks import TRANSLATE, chosen_task
from qkv.common.batch import Tokens
from qkv.common.config import from_dict
from qkv.common.errors import UsageError
from qkv.common.unicode import well_formed
from qkv.decoding.config import DecodingConfig
from qkv.decoding.generate import generate
from qkv.decoding.hypothesis import Hypothesis
from qkv.models.position import position_limit
from qkv.models.seq2seq_rnn import RecurrentSeq2Seq
from qkv.models.skeleton import EncoderDecoder
from qkv.predict.alignment import align
from qkv.predict.batching import batches
from qkv.predict.finite import finite
from qkv.predict.runner import Runner
from qkv.predict.texts import check_texts, chunked, readable
from qkv.predict.translation import Piece, Translation, cut_texts, join
from qkv.tokenizers.text import TextTokenizer

BEAM = 4


def translate(
    model: Runner,
    texts: Sequence[str],
    *,
    prefix: str | Sequence[str] | None = None,
    forbidden: Sequence[str] = (),
    task: str | None = None,
    source_prefix: str | None = None,
    split: bool = True,
    alignments: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> list[Translation]:
    """Translate each text; see `Model.translate`."""
    tokenizer = check_translator(model)
    check_texts("translate", texts)
    config = search_config(model, tokenizer, forbidden, options)
    begin = _prefixes(tokenizer, prefix, len(texts))
    before = prefix_of(model, task, source_prefix)
    cut = cut_texts(tokenizer, texts, model.max_length, before) if split else _whole(model, texts, before)
    said: list[dict[int, list[Translation]]] = [{} for _ in texts]
    jobs = [job for text, pieces in enumerate(cut) for job in _jobs(text, pieces, begin[text])]
    waiting = Counter(job.text for job in jobs)
    tell = progress or (lambda _: None)
    tell(len(texts) - len(waiting))
    for rows in batches([len(job.piece.ids) * config.beam for job in jobs], model.device):
        some = [jobs[row] for row in rows]
        worded = _worded(model, some, _search(model, some, config), before if alignments else None)
        for job, several in zip(some, worded, strict=True):
            said[job.text][job.place] = several
        now = Counter(job.text for job in some)
        waiting.subtract(now)
        tell(sum(waiting[text] == 0 for text in now))
    return [_joined(pieces, found, alignments) for pieces, found in zip(cut, said, strict=True)]


@dataclass(frozen=True)
class Job:
    """A piece to translate: its text, its place in it, and the prefix of its translation."""

    text: int
    place: int
    piece: Piece
    prefix: list[int]


def _jobs(text: int, pieces: list[Piece], prefix: list[int]) -> list[Job]:
    """List the pieces of a text that need translating; the first one gets the prefix."""
    there = [place for place, piece in enumerate(pieces) if piece.ids]
    return [Job(text, place, pieces[place], prefix if place == there[0] else []) for place in there]


def stream(
    ask: Callable[..., list[Any]], texts: Iterable[str], chunk: int, options: Mapping[str, Any]
) -> Iterator[Any]:
    """Translate chunk by chunk; random draws are the same as for one list of all texts."""
    if chunk < 1:
        raise UsageError(f"chunk must be at least 1, got {chunk}")
    done = 0
    for part in chunked(texts, chunk):
        yield from ask(part, **{**options, "seed": options.get("seed", 0) + done})
        done += len(part)


def prefix_of(model: Runner, task: str | None, source_prefix: str | None) -> str:
    """Return what the model reads before each text: as given, or as its folder says.

    Args:
        model: the model.
        task: one of its text-to-text tasks; None for the only one that translates.
        source_prefix: the prefix itself, instead of a task.
    """
    if source_prefix is not None:
        if task is not None:
            raise UsageError(f"give the task {task!r} or a source prefix, not both")
        return well_formed(source_prefix)
    if task is None and not any(one.kind for one in model.text_tasks.values()):
        return ""  # a translator without prefixes, or a folder from elsewhere that says nothing about translation
    return model.text_tasks[chosen_task(model.text_tasks, task, "" if task else TRANSLATE)].prefix


def _whole(model: Runner, texts: Sequence[str], prefix: str) -> list[list[Piece]]:
    """Return each text as one piece; one that is too long for the model is cut, with a warning."""
    cleaned = readable(texts)
    encoded = model.encode([prefix + text for text in cleaned]).ids
    return [[Piece(text, "", ids)] for text, ids in zip(cleaned, encoded, strict=True)]


def check_translator(model: Runner) -> TextTokenizer:
    """Return the tokenizer of a model that can translate."""
    able = isinstance(model.module, EncoderDecoder | RecurrentSeq2Seq) and "lm" in model.module.heads
    if not able or model.tokenizer is None:
        raise UsageError(f"this {model.family} is not a translator: an encoder-decoder with a tokenizer is needed")
    return model.tokenizer


def search_config(
    model: Runner, tokenizer: TextTokenizer, forbidden: Sequence[str], options: Mapping[str, Any]
) -> DecodingConfig:
    """Return the settings of the search; the default is a beam, or no beam when sampling."""
    if isinstance(forbidden, str):
        raise UsageError("forbidden takes a list of words; put a single one in a list")
    if not all(word.strip() for word in forbidden):
        raise UsageError("a forbidden word is empty")
    # A word is written in one way where a text begins and, by some tokenizers, in another after a space.
    words = {tuple(_plain(tokenizer, word, "forbidden word")) for w in forbidden for word in (w, f" {w.strip()}")}
    beam = 1 if options.get("sample") else BEAM
    config = from_dict(DecodingConfig, {"beam": beam, **options})
    config = replace(config, forbidden=tuple(sorted(words)))
    if config.beam > model.config.vocab_size:
        raise UsageError(f"a beam of {config.beam} is larger than the vocabulary of {model.config.vocab_size} tokens")
    return config


def _prefixes(tokenizer: TextTokenizer, prefix: str | Sequence[str] | None, count: int) -> list[list[int]]:
    if prefix is None or isinstance(prefix, str):
        return [_plain(tokenizer, prefix, "prefix") if prefix and prefix.strip() else []] * count
    if len(prefix) != count:
        raise UsageError(f"{count} texts and {len(prefix)} prefixes: give one prefix, or one for each text")
    return [_plain(tokenizer, words, "prefix") if words.strip() else [] for words in prefix]


def _plain(tokenizer: TextTokenizer, words: str, what: str) -> list[int]:
    """Turn words into ids without special tokens."""
    special = {number for role, number in tokenizer.specials.items() if role != "unk"}
    ids = [number for number in tokenizer.encode([well_formed(words)]).ids[0] if number not in special]
    if not ids or tokenizer.specials.get("unk") in ids:
        raise UsageError(f"the {what} {words!r} has no tokens in the vocabulary")
    return ids


def best_path(model: Runner, ids: list[int], options: Mapping[str, Any]) -> list[int]:
    """Search the translation of one sequence as it is; return its tokens, with the end token if it ended."""
    config = search_config(model, check_translator(model), (), options)
    found = _search(model, [Job(0, 0, Piece("", "", ids), [])], config)[0][0]
    return found.ids + [model.config.end_id] * found.ended


@torch.inference_mode()
def _search(model: Runner, jobs: list[Job], config: DecodingConfig) -> list[list[Hypothesis]]:
    assert isinstance(model.module, EncoderDecoder | RecurrentSeq2Seq)
    source = Tokens.of([job.piece.ids for job in jobs], device=model.device)
    most = position_limit(model.config) or sys.maxsize
    found = generate(
        model.module.start(source),
        torch.full((len(jobs),), model.config.start_id, device=model.device),
        end_id=model.config.end_id,
        max_lengths=[min(2 * len(job.piece.ids) + 20 + len(job.prefix), most) for job in jobs],
        config=config,
        prefixes=[job.prefix for job in jobs],
        seeds=[config.seed + job.text for job in jobs],
    )
    _check(model, [hypothesis for several in found for hypothesis in several])
    return found


def _check(model: Runner, found: list[Hypothesis]) -> None:
    """Raise an error if scores are not numbers; a beam search over NaN finds nothing at all."""
    finite([hypothesis.score for hypothesis in found])
    if any(not hypothesis.ids and not hypothesis.ended for hypothesis in found):
        for parameter in model.module.parameters():
            finite(parameter)


def _worded(
    model: Runner, jobs: list[Job], found: list[list[Hypothesis]], prefix: str | None
) -> list[list[Translation]]:
    """Decode the hypotheses of each piece into text, with alignments if the prefix of the sources is given."""
    assert model.tokenizer is not None
    tokenizer, end_id = model.tokenizer, model.config.end_id
    pairs = [(job.piece, hypothesis) for job, several in zip(jobs, found, strict=True) for hypothesis in several]
    said = [(piece.text, piece.ids, hypothesis.ids) for piece, hypothesis in pairs]
    aligned = iter([None] * len(pairs) if prefix is None else align(model, said, prefix))
    return [
        [
            Translation(
                text=tokenizer.decode(hypothesis.ids),
                score=hypothesis.score,
                tokens=[tokenizer.token_of(i) or "" for i in hypothesis.ids + [end_id] * hypothesis.ended],
                token_scores=hypothesis.scores,
                alignment=next(aligned),
            )
            for hypothesis in several
        ]
        for several in found
    ]


def _joined(pieces: list[Piece], said: dict[int, list[Translation]], alignments: bool) -> Translation:
    """Join a text's pieces; the n-th best of a text is the n-th best of each piece, or its last."""
    choices = [said.get(place, [Translation(piece.text)]) for place, piece in enumerate(pieces)]

    def rank(number: int) -> Translation:
        parts = zip(pieces, choices, strict=True)
        return join(
            [(piece.text, several[min(number, len(several) - 1)], piece.space) for piece, several in parts],
            aligned=alignments,
        )

    others = [rank(number) for number in range(1, max(map(len, choices), default=1))]
    return replace(rank(0), others=others)
