"""The file generation_config.json, from which `generate` takes its defaults, here and in `transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qkv.common.errors import QkvError

FILE = "generation_config.json"
IDS = ("decoder_start_token_id", "bos_token_id", "pad_token_id", "eos_token_id", "forced_eos_token_id")
SEARCH = {  # their names and ours (`DecodingConfig`)
    "num_beams": "beam",
    "do_sample": "sample",
    "length_penalty": "length_penalty",
    "min_new_tokens": "min_length",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram",
}
TOP_K = 50  # what `transformers` samples from if the file does not say
# How a model that continues text generates if nobody says otherwise: nucleus sampling (Holtzman et al. 2020), a little
# colder, because small models are unsure. The most likely text is a loop.
CONTINUES = {"do_sample": True, "temperature": 0.8, "top_k": 0, "top_p": 0.95}
# `generate` of `transformers` then searches as our `translate` does. Its `early_stopping=False` may stop before the
# best hypothesis of a beam is complete; "never" does not.
TRANSLATES = {"num_beams": 4, "length_penalty": 1.0, "early_stopping": "never"}


@dataclass(frozen=True)
class GenerationDefaults:
    """The contents of the file; all of them are written back.

    Attributes:
        raw: the keys and values of the file.
    """

    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def search(self) -> dict[str, Any]:
        """The settings of the search, by our names."""
        found = {ours: self.raw[theirs] for theirs, ours in SEARCH.items() if self.raw.get(theirs) is not None}
        return {"top_k": TOP_K, **found} if found.get("sample") else found

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The tokens that end a text, if the file names any."""
        found = self.raw.get("eos_token_id")
        return tuple(found) if isinstance(found, list) else () if found is None else (found,)

    def most_new(self, before: int) -> int | None:
        """Return the most new tokens after `before` others, which `max_length` counts too; None for no limit."""
        if (new := self.raw.get("max_new_tokens")) is not None:
            return int(new)
        whole = self.raw.get("max_length")
        return None if whole is None else max(0, int(whole) - before)


def read_generation(raw: Mapping[str, Any]) -> GenerationDefaults:
    """Check the numbers of the file that are used."""
    for key in (*SEARCH, "max_length", "max_new_tokens"):
        if not isinstance(value := raw.get(key), int | float | None):
            raise QkvError(f"{FILE}: {key} must be a number, got {value!r}")
    found = GenerationDefaults(raw)
    if not all(isinstance(number, int) and number >= 0 for number in found.end_ids):
        raise QkvError(f"{FILE}: eos_token_id must be a token or a list of tokens, got {raw['eos_token_id']!r}")
    return found


def generation_json(raw: Mapping[str, Any], known: GenerationDefaults | None, *, max_length: int) -> dict[str, Any]:
    """Return the contents of the file for a model with this config.json.

    Without them, `transformers` is greedy and stops after 20 tokens.

    Args:
        raw: the config.json, which has the ids of the special tokens.
        known: what the folder of the model said, if it had the file.
        max_length: the most tokens that the model reads.
    """
    ids = {key: raw[key] for key in IDS if raw.get(key) is not None}
    usual = TRANSLATES if raw.get("is_encoder_decoder") else CONTINUES
    return ids | ({"max_length": max_length} | usual if known is None else dict(known.raw))
