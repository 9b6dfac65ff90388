"""The verbs that a model supports, by its heads."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.common.errors import UsageError
from qkv.predict.runner import Runner
from qkv.predict.texts import check_list
from qkv.tokenizers.text import TextTokenizer

HEADS = {
    "classify": {"classify", "regress"},
    "tag": {"tag"},
    "answer": {"span"},
    "fill": {"mlm"},
    "generate": {"lm"},
    "score": {"lm"},
}
WRITERS = ("t5",)  # encoder-decoders that are not only translators
SEARCHES = ("translate", "generate")
PLAIN = ("translate", "classify", "tag", "embed")  # take texts and nothing else


def verbs(model: Runner) -> list[str]:
    """Return the verbs that a model supports."""
    found = _by_heads(model)
    if model.searches_only:
        return [verb for verb in found if verb in SEARCHES]
    return found


def _by_heads(model: Runner) -> list[str]:
    if model.reads_images:
        return ["classify"] if {"classify", "distilled"} & set(model.config.heads) else []
    if model.tokenizer is None:
        return []
    heads = set(getattr(model.config, "heads", ()))
    if getattr(model.module, "decoder", None) is not None:
        able = ["translate", *(["generate", "score"] if model.family in WRITERS else [])]
        return [*(able if "lm" in heads else []), "embed", "similar"]
    return [*(verb for verb, needed in HEADS.items() if heads & needed), "embed", "similar"]


def tokenizer_for(model: Runner, verb: str) -> TextTokenizer:
    """Return the tokenizer of a model; without one, it is an error that names the verb."""
    if model.tokenizer is None:
        raise UsageError(f"this {model.family} has no tokenizer, and {verb} reads text: load a folder that has one")
    return model.tokenizer


def reader(model: Runner, verb: str, texts: Sequence[str] | Sequence[Sequence[str]]) -> TextTokenizer:
    """Check that a model has a verb and gets a list of texts, and return its tokenizer."""
    tokenizer = tokenizer_for(model, verb)
    if verb not in (there := verbs(model)):
        raise UsageError(f"this {model.family} cannot {verb}: it has no head for that (it can {', '.join(there)})")
    check_list(verb, texts)
    if verb != "classify":  # there, `Runner.encode` warns, which needs no tokens of its own for that
        joined = [
            text if isinstance(text, str) else " ".join(text) for text in texts if isinstance(text, str | list | tuple)
        ]
        model.warn_unknown(joined)
    return tokenizer


def names_of(model: Runner) -> tuple[str, ...]:
    """Return the names of the labels; if the folder has none, those that `transformers` would use."""
    return model.labels or tuple(f"LABEL_{number}" for number in range(getattr(model.config, "num_labels", 0)))
