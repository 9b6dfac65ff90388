"""The `[data]` table of a recipe: where examples come from and how to read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where examples come from.

    Attributes:
        train: the training files. For translation, two aligned files. "phrasebook" is the built-in corpus.
        valid: the validation files. If empty, a share of the training examples is held out (`held_out`).
        test: files to score when training is done.
        format: tsv, csv, jsonl, parquet, label-first (a label, a space, the text), fasttext (lines that begin with
            __label__NAME) or folder (a sub-folder of text files for each class). If empty, the file name decides, then
            the file. CSV may be separated by commas, semicolons, tabs or bars; JSON may be lines or a list of objects.
        encoding: of the files, such as utf-8, cp1252 or utf-16. If empty, it is detected; a file that is not UTF-8 is
            reported with the encoding it is read in.
        unit: what counts as one document in plain text: line, blank (documents separated by blank lines) or file. In
            a table (csv, tsv, jsonl, parquet) each row is one document, read from the column `text` or the first
            column with a common name.
        text: the column with the text, by name or by number from 0 (#0). If empty, it is detected by name, then by
            content. For tagging, the column with the words; if empty, FORM in CoNLL-U files, the first in others.
        second: the column with the second text of a pair, if there is one.
        label: the column with the label, as in `text`. For tagging, the column with the tags; if empty, UPOS in
            CoNLL-U files, the last in others.
        separator: the separator between labels in multi-label data. If empty, each example has one label, unless the
            labels are JSON lists.
        max_length: the maximum sequence length in tokens. Longer sequences are truncated; longer translation pairs are
            dropped.
        short: for language models, the window length for the first 90 % of the steps and for validation; after that
            windows have max_length tokens, as in BERT's own training. 0 uses max_length throughout. With learned
            positions, half of the short windows start at a random position, so that every position is trained.
        held_out: the share of training examples held out for validation if there is no validation file.
        skip_bad: skip rows that cannot be used and count them, instead of stopping at the first one.
        cache: where to keep tokenised examples. If empty, in the run's folder.
        dropout: BPE-dropout for translate, classify (single texts) and tag with a BPE tokenizer: the probability of
            skipping a merge each time a training text is read. 0 turns it off. Token budgets are counted without it.
        mix: for the tasks mixture and text-to-text, one table per part, named as in objective.mix: files (patterns that
            select some of the files above) and any of format, encoding, unit, text, second, label, max_length and
            dropout that differ.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    format: str = ""
    encoding: str = ""
    unit: str = "line"
    text: str = ""
    second: str = ""
    label: str = ""
    separator: str = ""
    max_length: int = 256
    short: int = 0
    held_out: float = 0.05
    skip_bad: bool = False
    cache: str = ""
    dropout: float = 0.0
    mix: dict[str, Any] = field(default_factory=dict)

    @property
    def bad(self) -> str:
        """What readers do with bad rows: "skip" or "stop"."""
        return "skip" if self.skip_bad else "stop"

    @property
    def document(self) -> dict[str, Any]:
        """The reader's arguments that define a document."""
        return {"unit": self.unit, "column": self.text, "encoding": self.encoding}
