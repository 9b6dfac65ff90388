"""The output of `qkv info` and the closing line of `qkv train`."""

from __future__ import annotations

from typing import Any

# what tells the order of tokens in families without a position scheme
ORDER = {"seq2seq_rnn": "recurrence", "conv_seq2seq": "convolution"}


def facts(name: str, found: dict[str, Any]) -> str:
    """Format the facts about a model, one per line."""
    tokenizer, memory = found["tokenizer"], found["memory_bytes"]
    rows = {
        "model": name,
        "family": found["family"],
        "stored as": found["stored_as"] + (f" ({found['stored_note']})" if found["stored_note"] else ""),
        "parameters": f"{found['parameters']:,}",
        "memory": ", ".join(f"{_bytes(size)} in {kind}" for kind, size in memory.items()),
        "position": found["position"] or ORDER.get(found["family"], "none"),
        "attention": ", ".join(f"{kernel} ({dtype})" for dtype, kernel in found["attention_kernel"].items()),
        "runs on": found["engine"],
        "tokenizer": f"{tokenizer['kind']}, {tokenizer['vocab_size']:,} tokens, {tokenizer['fingerprint']}"
        if tokenizer
        else "none",
        **{key.replace("_", " "): _said(value) for key, value in found["sizes"].items()},
    }
    if found["labels"]:
        rows["labels"] = ", ".join(found["labels"][:8]) + (" …" if len(found["labels"]) > 8 else "")
    if found["tasks"]:
        rows["tasks"] = ", ".join(f"{name} ({prefix!r})" for name, prefix in found["tasks"].items())
    width = max(map(len, rows))
    return "\n".join(f"{key:<{width}}  {value}" for key, value in rows.items())


def closing(outcome: Any) -> str:
    """Say how a run ended and which weights its folder holds."""
    from qkv.training.validation import described

    ended = f"{outcome.reason} after {outcome.step} steps"
    if not outcome.finished or outcome.scores is None:
        return ended
    of = "the last step" if outcome.weights_of == outcome.step else f"step {outcome.weights_of}, the best"
    return f"{ended}, with the weights of {of}: {described(outcome.scores)}"


def _said(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.1f} {unit}"
