"""A look as one HTML file. It loads nothing from elsewhere, and its security policy lets only its own script run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qkv.common.terminal import one_line
from qkv.insight.look import ROLLOUT, TITLES, Look, Part
from qkv.insight.maps import bias_of, chosen, eight_bits, layer_maps, packed, projections
from qkv.insight.rollout import rollout
from qkv.version import __version__

if TYPE_CHECKING:
    from qkv.insight.look_comparison import LookComparison

FOLDER = Path(__file__).with_name("page")
SCRIPTS = ("data", "draw", "heads", "matrix", "model", "steps", "answers", "picture", "changes", "main")
CELLS = 64_000_000  # weights stored in full, a byte each before compression; beyond that some layers only
NUMBERS = 4_000_000  # numbers of q and k stored, two bytes each; beyond that for some layers only
FRAMED = 8_000_000  # weights stored in a notebook, which keeps every output in its file


def page(look: Look, cells: int = CELLS, beside: LookComparison | None = None) -> str:
    """Return the page of a look, or of one look beside another."""
    script = "\n".join((FOLDER / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    blocks: dict[str, Tensor] = {}
    looks = {"": look} if beside is None else {"": look, "other-": beside.other}
    data = {
        "parts": [
            _part(one, name, cells // len(looks), blocks, prefix)
            for prefix, one in looks.items()
            for name in _order(one)
        ],
        "lens": _lens(look),
        "picture": _picture(look, blocks),
        "beside": None if beside is None else _beside(beside),
    }
    known = {
        "title": escape(one_line(f"{look.model}: {' / '.join(look.texts)}"[:120])),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "style": (FOLDER / "page.css").read_text("utf-8"),
        "model": escape(one_line(look.model if beside is None else beside.about)),
        "about": escape(one_line(look.about)),
        "texts": "".join(f'<p class="text"><bdi>{escape(_shortened(text))}</bdi></p>' for text in look.texts),
        "notes": "".join(f'<p class="note">{escape(_shortened(note))}</p>' for note in look.notes),
        "data": json.dumps(data).replace("<", "\\u003c"),
        "blocks": "\n".join(_compressed(blocks)),
        "script": script,
        "made": f"Written by qkv {__version__}.",
    }
    # One pass over the template: what is filled in is never searched again.
    template = (FOLDER / "page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: known[found[1]], template)


def framed(look: Look, beside: LookComparison | None = None) -> str:
    """Return the page as a frame for a notebook."""
    source = escape(page(look, FRAMED, beside))
    return (
        f'<iframe srcdoc="{source}" sandbox="allow-scripts" title="attention" '
        'style="width:100%;height:860px;border:1px solid #8884;border-radius:8px"></iframe>'
    )


def _compressed(blocks: dict[str, Tensor]) -> list[str]:
    """Write each tensor as an element of the page. Compressing takes most of a page's time, so all threads do it."""
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        texts = pool.map(packed, blocks.values())
        return [
            f'<script type="text/plain" id="{name}">{text}</script>' for name, text in zip(blocks, texts, strict=True)
        ]


def _order(look: Look) -> list[str]:
    return [look.main, *(name for name in look.parts if name != look.main)]


def _part(look: Look, name: str, cells: int, blocks: dict[str, Tensor], prefix: str = "") -> dict[str, Any]:
    """Store the maps of a part, and return what the page must know of it; `prefix` tells two models apart."""
    part = look.parts[name]
    size = part.num_heads * len(part.rows) * len(part.columns)
    usual = look.usual_layer(name)
    stored = chosen(part.num_layers, cells // len(look.parts) // max(size, 1), usual)
    thumbs, means = [], []
    follows = part.rows is part.columns and len(stored) == part.num_layers  # a rollout of a longer text takes too long
    for layer, maps in enumerate(layer_maps(part, stored)):
        thumbs.append(maps.thumbs)
        if follows:
            means.append(maps.mean.unsqueeze(0))
        if maps.weights is not None:
            blocks[f"{prefix}{name}-weights-{layer}"] = maps.weights
    small = torch.stack(thumbs)
    blocks[f"{prefix}{name}-thumbs"] = small
    if follows:
        blocks[f"{prefix}{name}-weights-{ROLLOUT}"] = eight_bits(rollout(means))
    return {
        "name": prefix + name,
        "kind": name,
        "title": TITLES[name],
        "model": one_line(look.model),
        "rows": _labels(part.rows),
        "columns": _labels(part.columns),
        "same": part.rows is part.columns,
        "layers": part.num_layers,
        "heads": part.num_heads,
        "thumb": list(small.shape[2:]),
        "layer": usual,
        "stored": sorted(stored),
        "rollout": follows,
        "steps": _steps(part, prefix + name, NUMBERS // len(look.parts), usual, blocks),
    }


def _steps(part: Part, name: str, room: int, usual: int, blocks: dict[str, Tensor]) -> dict[str, Any]:
    """Store q and k of as many layers as there is room for, and return what the page must know to use them."""
    calls = [part.call(layer) for layer in range(part.num_layers)]
    first = next((call for call in calls if call is not None), None)
    if first is None:
        return {}
    size = first.q.numel() + first.k.numel()
    if first.bias is not None:
        size += first.q.shape[1] * len(part.rows) * len(part.columns)
    stored = chosen(part.num_layers, max(room // size, 1), usual)
    scales = {}
    for layer in sorted(stored):
        call = calls[layer]
        if call is None:
            continue
        scales[layer] = call.scale
        blocks[f"{name}-qk-{layer}"] = projections(call)
        if (bias := bias_of(call)) is not None:
            blocks[f"{name}-bias-{layer}"] = bias
    visible = {"causal": first.causal, "window": first.window}
    return {"scales": scales, "kv": first.k.shape[1], "width": first.q.shape[2], **visible}


def _beside(beside: LookComparison) -> dict[str, Any]:
    """Return the distances of the heads, and what the other model answers at the same places."""
    first, second = beside.look.lens, beside.other.lens
    same = first is not None and second is not None and first.places == second.places
    parts = {
        name: {
            "same": one.moved is not None,
            "distances": [[round(value, 4) for value in row] for row in one.distances.tolist()],
            "nearest": [[round(value, 4) for value in row] for row in one.nearest.tolist()],
            "where": one.where,
        }
        for name, one in beside.parts.items()
    }
    return {"model": one_line(beside.other.model), "parts": parts, "lens": _lens(beside.other) if same else None}


def _lens(look: Look) -> dict[str, Any] | None:
    if look.lens is None:
        return None
    lens = look.lens
    return {
        "places": _labels(lens.places),
        "layers": lens.layers,
        "choices": [[[[_label(n), round(p, 5)] for n, p in best] for best in place] for place in lens.choices],
        "wanted": [None if one is None else [_label(one[0]), [round(p, 5) for p in one[1]]] for one in lens.wanted],
    }


def _picture(look: Look, blocks: dict[str, Tensor]) -> dict[str, Any] | None:
    """Store the image and the rollout of every patch."""
    picture = look.picture
    if picture is None:
        return None
    blocks["pixels"] = picture.pixels
    rolled = look.rollout()
    # Of a row, only how patches compare is shown: each row is scaled to its largest weight on a patch.
    patches = rolled[:, picture.leading :]
    blocks["rollout"] = (patches / patches.amax(1, keepdim=True)).mul(255).round().to(torch.uint8)
    channels, height, width = picture.pixels.shape
    return {"channels": channels, "height": height, "width": width, "grid": picture.grid, "leading": picture.leading}


def _labels(names: list[str]) -> list[str]:
    return [_label(name) for name in names]


def _label(name: str) -> str:
    """Return a token as one line: a space at its ends is a dot, control and bidi characters are escapes."""
    inner = name.strip(" ")
    before, after = len(name) - len(name.lstrip(" ")), len(name) - len(name.rstrip(" "))
    return one_line("·" * before + inner + "·" * after * bool(inner)) or "·"


def _shortened(text: str, limit: int = 600) -> str:
    shown = one_line(text)
    return shown if len(shown) <= limit else f"{shown[:limit]}…"
