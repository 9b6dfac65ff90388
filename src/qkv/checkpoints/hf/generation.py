"""The file generation_config.json, from which `generate` of `transformers` takes its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILE = "generation_config.json"
IDS = ("decoder_start_token_id", "pad_token_id", "eos_token_id", "forced_eos_token_id")


def generation_json(raw: Mapping[str, Any], *, max_length: int) -> dict[str, Any]:
    """Return the settings with which `generate` searches as our `translate` does.

    Without them, it is greedy and stops after 20 tokens. Its `early_stopping=False` may stop before the best hypothesis
    of a beam is complete; "never" does not.
    """
    ids = {key: raw[key] for key in IDS if key in raw}
    return ids | {"max_length": max_length, "num_beams": 4, "length_penalty": 1.0, "early_stopping": "never"}
