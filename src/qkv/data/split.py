"""Holding examples out by their content, so that a split never depends on order, files or machines."""

from __future__ import annotations

import hashlib

from qkv.common.errors import UsageError


def held_out(key: str, share: float, seed: int) -> bool:
    """Tell whether an example belongs to the held-out part.

    Args:
        key: what names the example. Examples with the same key stay together: the source sentence of a pair with
            several translations, the context of several questions.
        share: the part that is held out, 0 to 1. A larger share holds out a superset.
        seed: another seed is another split.
    """
    if not 0 <= share <= 1:
        raise UsageError(f"a share is a number from 0 to 1, got {share}")
    digest = hashlib.blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64
