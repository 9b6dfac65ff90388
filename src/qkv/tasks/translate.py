"""Translation: sources and targets from aligned texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from qkv.common.batch import Pairs, Translated
from qkv.data.bad_rows import BadRows
from qkv.data.examples import Parallel
from qkv.data.parallel import PAIRS, parallel
from qkv.data.phrasebook.named import is_phrasebook, named_pairs
from qkv.data.split import sentence_key
from qkv.data.store import Store
from qkv.data.unanswered import read_texts
from qkv.decoding.config import DecodingConfig
from qkv.evaluation.prediction import Prediction
from qkv.evaluation.score import Score
from qkv.evaluation.translation import Bleu, Chrf, sentence_chrf
from qkv.objectives.translate import Translate
from qkv.tasks.base import Array, Collate, Context, Row, Task, Trivial, has_decoder, has_head
from qkv.tasks.batches import CHUNK, limit_of, shifted, tokens_of
from qkv.tasks.bpe_dropout import check_bpe_dropout, drops, resplit, text_bytes
from qkv.tasks.exam import Exam, Metric, Signed, chunks
from qkv.tasks.facts import Rule
from qkv.tasks.longer import translations
from qkv.tasks.translate_rules import RULES

SIDES = ("source", "target")


class TranslateTask(Task):
    """Sequence to sequence, with one vocabulary for both sides."""

    distilled_by: ClassVar[str] = "translate"
    measured: ClassVar[bool] = True
    rules: ClassVar[Mapping[str, Rule]] = RULES
    Settings: ClassVar[type[Any]] = Translate
    specials: ClassVar[str] = "translate"
    heads: ClassVar[tuple[str, ...]] = ("lm",)
    decodes: ClassVar[bool] = True
    answerable: ClassVar[bool] = True
    optional_keys: ClassVar[frozenset[str]] = frozenset({"data.dropout"})
    held_out_unit: ClassVar[str] = "source sentences"

    def examples(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Parallel]:
        """Read aligned texts from files, or from the built-in phrasebook ("phrasebook:train:20000")."""
        if len(paths) == 1 and is_phrasebook(paths[0]):
            return named_pairs(paths[0])
        data = self.data
        columns = [data.text, data.second] if data.text and data.second else None
        return parallel(list(paths), columns=columns, encoding=data.encoding, bad=data.bad, skipped=skipped)

    def texts(self, example: Parallel) -> Iterable[str]:
        """Return both sides."""
        return example.source, example.target

    def key(self, example: Parallel) -> str:
        """Hold out by source, so that no validation source occurs in training with another target."""
        return sentence_key(example.source)

    def rows(self, examples: Iterable[Parallel], context: Context) -> Iterator[Row]:
        """Tokenise both sides; pairs that are too long are skipped and counted. BPE-dropout also stores the texts."""
        left_out, keeps, limit = (
            0,
            check_bpe_dropout(self.data.dropout, context),
            limit_of(context, self.data.max_length),
        )
        for chunk in chunks(examples, CHUNK):
            pairs = [tuple(self.texts(example)) for example in chunk]
            both = zip(*(context.text.encode([pair[side] for pair in pairs]).ids for side in (0, 1)), strict=True)
            for texts, ids in zip(pairs, both, strict=True):
                if max(map(len, ids)) > limit:
                    left_out += 1
                    continue
                kept = {f"{side}_text": text_bytes(text) for side, text in zip(SIDES, texts, strict=True)}
                yield dict(zip(SIDES, ids, strict=True)) | (kept if keeps else {})
        if left_out:
            context.say(f"{left_out} pairs are longer than {limit} tokens and were skipped")

    def lengths(self, store: Store) -> Array:
        """Return the tokens of both sides, not counting the effect of BPE-dropout."""
        return store.lengths("source") + store.lengths("target")

    def collate(self, store: Store, context: Context) -> Collate:
        """Gather both sides; the decoder reads its target shifted by one token."""
        again = drops(store, self.data.dropout)

        def make(rows: Array, rng: np.random.Generator) -> Translated:
            source, target = (
                resplit(store, side, rows, context, self.data, rng) if again else store.gather(side, rows)
                for side in SIDES
            )
            return translated(source, target, context.config.start_id)

        return make

    def unanswered(self, paths: Sequence[str], skipped: BadRows | None = None) -> Iterator[Parallel]:
        """Read sources without targets."""
        usual = [first for first, _ in PAIRS]
        return (Parallel(texts[0], "", where) for where, texts in read_texts(paths, self.data, skipped, usual=usual))

    def answered(self, examples: Sequence[Any], model: Any, labels: Sequence[str]) -> Iterator[Parallel]:
        """Translate each source with the default beam, as Kim & Rush 2016 do; empty translations are left out."""
        del labels
        found = model.translate([example.source for example in examples])
        for example, target in zip(examples, found, strict=True):
            if target.strip():
                yield replace(example, target=target)

    def record(self, example: Parallel) -> dict[str, Any]:
        """Return two columns, with the names that the recipe gives or that are detected."""
        named = (self.data.text, self.data.second) if self.data.text and self.data.second else SIDES
        return dict(zip(named, (example.source, example.target), strict=True))

    @classmethod
    def can_score(cls, model: Any) -> bool:
        """Whether the model is an encoder-decoder with a language modelling head."""
        return has_decoder(model) and has_head(model, "lm")

    def metrics(self, exam: Exam) -> list[Metric]:
        """Return BLEU and chrF; the signature includes the beam size and the length penalty."""
        searched = f"beam:{exam.beam}|lp:{DecodingConfig().length_penalty}"
        return [Signed(metric, searched) for metric in (Bleu(), Bleu(lowercase=True), Chrf())]

    def predictions(self, exam: Exam) -> Iterator[Prediction]:
        """Translate each source; the lower the chrF of a translation, the worse it is."""
        for chunk in exam.chunks(exam.examples(self)):
            said = exam.model.translate([example.source for example in chunk], beam=exam.beam)
            for text, example in zip(said, chunk, strict=True):
                yield Prediction(
                    said=text,
                    gold=[example.target],
                    texts=(example.source,),
                    where=example.where,
                    answer=text,
                    correct=example.target,
                    fault=1 - sentence_chrf(text, example.target) / 100,
                )

    def score_longer(self, exam: Exam, times: Sequence[int]) -> list[Score | None]:
        """Return BLEU on several examples joined into one."""
        return translations(self, exam, times)

    def trivial(self, exam: Exam, known: Iterable[Parallel], *, trained: bool) -> dict[str, Trivial]:
        """Copy the source."""
        del exam, known, trained
        return {"the source, copied": lambda answered: answered.texts[0]}


def translated(source: tuple[Array, Array], target: tuple[Array, Array], start_id: int) -> Translated:
    """Make a batch from sources and targets, each given as ids and lengths."""
    flat, lengths = target
    read = tokens_of(shifted(flat, lengths, start_id), lengths)
    return Translated(Pairs(tokens_of(*source), read), tokens_of(flat, lengths).ids)
