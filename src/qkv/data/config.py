"""Where examples come from, and how they are read: the table `[data]` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where examples come from.

    Attributes:
        train: files of the training examples; two aligned files for translation; or the built-in "phrasebook".
        valid: files of the validation examples; where there are none, a share of the training examples is held out.
        test: files that are scored at the end.
        format: tsv, csv, jsonl, parquet or label-first (a label, a blank, the text), where the name does not tell it.
        unit: what a document is in plain text: line, blank (blank lines between documents) or file. Of a table (csv,
            tsv, jsonl, parquet) each row is one: the column `text`, or the first with a usual name.
        text: the column of the text; recognised by its name, else by what stands in it, where it is empty.
        second: the column of the second text of a pair, or empty.
        label: the column of the label; recognised by its name, else by what stands in it, where it is empty.
        separator: what stands between several labels of one example, or empty for one label each.
        max_length: longest sequence in tokens; longer ones are cut, and of aligned texts left out.
        short: for language models, tokens of a window in the first nine tenths of the steps and in validation, before
            windows of max_length, as BERT was trained; 0 for max_length from the first step. Half of the short ones
            begin at a random one of the learned positions, so that none is new to the long ones.
        held_out: share of the training examples for validation where there is no validation file.
        skip_bad: count bad rows and go on, instead of stopping at the first.
        cache: where tokenised examples are kept; beside the run where it is empty.
        dropout: for translate, classify (single texts) and tag with a BPE tokenizer, the share of merges that is left
            out at random each time a training text is read (BPE-dropout); 0 for none. Token budgets count texts without
            it.
        mix: for the task mixture, a table for each part, named by its task: files (patterns of those it reads among the
            files above) and any of format, unit, text, second, label, max_length and dropout where they differ.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    format: str = ""
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
        """What readers do about bad rows: "skip" or "stop"."""
        return "skip" if self.skip_bad else "stop"

    @property
    def document(self) -> dict[str, Any]:
        """What a document is."""
        return {"unit": self.unit, "column": self.text}
