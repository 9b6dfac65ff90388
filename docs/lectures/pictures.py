"""Draws the pictures of docs/lectures.md from the parts of the package: python docs/lectures/pictures.py [FOLDER]."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from drawing import COLOURS, Axis, Line, box, chart, inside, page, stroke, text
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import qkv
from qkv.common.batch import Pairs, Tokens
from qkv.common.ragged import Ragged
from qkv.data.corruption import corrupt_spans, mask_tokens
from qkv.insight import svg
from qkv.insight.capture import capture
from qkv.nn import kernels
from qkv.nn.attention import PassContext, SelfAttention
from qkv.nn.block import Sublayer
from qkv.nn.convolution import CausalConvolution
from qkv.nn.feedforward import FeedForward
from qkv.nn.init import initialise
from qkv.nn.kernels import Call, eager
from qkv.nn.positions import Placement, SinusoidalPosition
from qkv.nn.recurrent import RecurrentEncoder
from qkv.objectives.entropy import cross_entropy, log_softmax
from qkv.training.schedule import SCHEDULES, rate

READ = "I have read the book."
BUY = "He must buy a new car tomorrow."
REPAIR = "They repair our planes."
DRINKS = "My mother drinks tea and my father drinks coffee."
SEARCHES = {"greedy": 1, "beam of 4": 4}


def gradients() -> str:
    """How much of the gradient at the last token reaches each earlier one: GRU, LSTM, attention."""
    dim, length, layout = 64, 101, Ragged.of([101])
    gru, lstm, attention = RecurrentEncoder(dim, cell="gru"), RecurrentEncoder(dim), SelfAttention(dim, 4)
    initialise(lstm, "rnn")  # forget gates open
    context = PassContext.of(layout)
    readers: dict[str, Callable[[Tensor], Tensor]] = {
        "attention": lambda x: attention(x, context, Placement(), 0)[-1],
        "LSTM": lambda x: lstm(x, layout)[0][-1, : dim // 2],  # the forward direction
        "GRU": lambda x: gru(x, layout)[0][-1, : dim // 2],
    }
    lines = []
    for name, read in readers.items():
        norms = torch.stack([_reach(read, torch.randn(length, dim)) for _ in range(8)]).mean(0)
        points = [(float(k), norm) for k, norm in enumerate(norms.tolist()) if norm > 1e-12]
        lines.append(Line(name, points))
    y = Axis("gradient norm", log=10, low=1e-12, high=10)
    return chart("The gradient of the last output at each earlier token", lines, Axis("tokens back"), y, right=90)


def _reach(read: Callable[[Tensor], Tensor], x_LD: Tensor) -> Tensor:
    """Return the gradient norm at each token, from the last to the first. Shape: [L]."""
    x_LD.requires_grad_()
    y_D = read(x_LD)
    (gradient,) = torch.autograd.grad((y_D * torch.randn(y_D.shape)).sum(), x_LD)
    return gradient.norm(dim=-1).flip(0)


def scaling() -> str:
    """The mean slope of softmax over 64 random keys, with and without the scale, for growing heads."""
    found: dict[str, list[tuple[float, float]]] = {"q·k": [], "q·k / √width": []}
    for width in (2**power for power in range(2, 11)):
        q, k = torch.randn(512, 1, width), torch.randn(64, 1, width)
        for name, scale in zip(found, (1.0, width**-0.5), strict=True):
            call = Call(q=q, k=k, v=k, queries=Ragged.of([512]), keys=Ragged.of([64]), scale=scale)
            p = kernels.weights(call)[0]
            found[name].append((width, float((p * (1 - p)).mean())))  # the derivative of a weight by its own score
    lines = [Line(name, points) for name, points in found.items()]
    x, y = Axis("width of a head", log=2), Axis("mean slope of softmax", low=0.0)
    return chart("Without the scale, softmax stops passing gradients", lines, x, y, right=120)


def heads() -> str:
    """The four heads of the translator's first encoder layer on one sentence."""
    model, (source, _) = _translator(), _pair(READ)
    with capture(model.module) as found, torch.no_grad():
        model.module.encode(Tokens.of([source]))
    weights = found.weights()["encoder.blocks.0.attention.part"][0]
    tokens = _names(source)
    drawn = [svg.svg(head, tokens, tokens, f"head {number}") for number, head in enumerate(weights)]
    width, height = (float(drawn[0].split(f' {side}="')[1].split('"')[0]) for side in ("width", "height"))
    places = [(12 + (width + 12) * (n % 2), 34 + (height + 8) * (n // 2)) for n in range(4)]
    body = [inside(one, *place) for one, place in zip(drawn, places, strict=True)]
    return page("Four heads of one layer, the same sentence", 2 * width + 36, 2 * height + 50, body)


def likeness() -> str:
    """Attention without weights: the cosines of the translator's word vectors, through softmax."""
    (ids,) = _translator().encode([DRINKS]).ids
    x_TNH = F.normalize(_translator().module.table[ids].detach(), dim=-1).unsqueeze(1)
    layout = Ragged.of([len(ids)])
    weights = kernels.weights(Call(q=x_TNH, k=x_TNH, v=x_TNH, queries=layout, keys=layout, scale=4.0))[0][0]
    return svg.svg(weights, _names(ids), _names(ids), "Attention by likeness alone")


def lookup() -> str:
    """What a soft look-up among the values 10, 20 and 60 returns, the query being nearly the second key."""
    keys, values = torch.eye(4)[:3].unsqueeze(1), torch.tensor([[10.0], [20.0], [60.0]]).expand(3, 4).unsqueeze(1)
    layouts = {"queries": Ragged.of([1]), "keys": Ragged.of([3])}
    points = []
    for step in range(-20, 41):
        scale = 10 ** (step / 20)
        found = eager(Call(q=0.9 * keys[1:2] + 0.1 * keys[2:3], k=keys, v=values, scale=scale, **layouts))
        points.append((scale, float(found[0, 0, 0])))
    x, y = Axis("scale", log=10), Axis("answer", low=10.0, high=32.0)
    mean, second = [(0.1, 30.0), (100.0, 30.0)], [(0.1, 20.0), (100.0, 20.0)]
    lines = [Line("soft look-up", points), Line("mean of the values", mean), Line("value of the best key", second)]
    return chart("A soft look-up, from the mean to the best match", lines, x, y, right=170)


def clock() -> str:
    """Pairs of sine and cosine as the hands of clocks, for eight positions."""
    rows, dim, radius, step = 4, 8, 22, 62
    table = SinusoidalPosition(dim)(torch.arange(8), 8)
    sin, cos = table[:, :rows], table[:, rows:]
    body = []
    for row in range(rows):
        y = 84 + step * row
        turn = 2 * math.pi * 10000 ** (2 * row / dim)
        body.append(text(f"one turn in {turn:,.0f} positions" if turn > 10 else "one turn in 6.3 positions", 12, y + 4))
        for position in range(8):
            x = 220 + step * position
            tip = (x + radius * float(sin[position, row]), y - radius * float(cos[position, row]))
            body.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="none" stroke="#888888"/>')
            body.append(stroke((x, y), tip, COLOURS[row], 3))
    body += [text(str(position), 220 + step * position, 50, anchor="middle") for position in range(8)]
    body.append(text("position", 12, 50))
    return page("Sinusoidal positions: clocks whose hands turn at different speeds", 690, 300, body)


def mask() -> str:
    """The attention weights of a causal layer: nothing above the diagonal."""
    words = ["<s>", "the", "cat", "sat", "on", "the", "mat"]
    layout = Ragged.of([len(words)])
    q, k = torch.randn(7, 1, 16), torch.randn(7, 1, 16)
    call = Call(q=q, k=k, v=k, queries=layout, keys=layout, scale=0.25, causal=True)
    return svg.svg(kernels.weights(call)[0][0], words, words, "A masked decoder")


def cross() -> str:
    """The cross-attention of the translator: target down, source across."""
    model, (source, target) = _translator(), _pair(BUY)
    read = [model.config.start_id, *target[:-1]]
    with capture(model.module) as found, torch.no_grad():
        model.module(Pairs(Tokens.of([source]), Tokens.of([read])))
    weights = found.weights()["decoder.blocks.1.cross.part"][0].mean(0)
    return svg.svg(weights, _names(target), _names(source), "From each German token to the English ones")


def output() -> str:
    """The distribution over the next token, of the trained translator and of the same model without training."""
    model, (source, target) = _translator(), _pair(READ)
    read = [model.config.start_id, *target[:4]]
    batch = Pairs(Tokens.of([source]), Tokens.of([read]))
    fresh = qkv.build("transformer-tiny", vocab_size=model.config.vocab_size, device="cpu").module
    with torch.no_grad():
        trained, untrained = (log_softmax(net.logits(net(batch), "lm"))[-1].exp() for net in (model.module, fresh))
    best = trained.topk(6).indices.tolist()
    columns = {"target": [1.0] + 6 * [0.0], "trained": _shares(trained, best), "untrained": _shares(untrained, best)}
    return _bars("After “Ich habe das Buch”: the next token", [*_names(best), "all 6,994 others"], columns)


def softened() -> str:
    """What a teacher says at three temperatures."""
    model, (source, target) = _translator(), _pair(READ)
    batch = Pairs(Tokens.of([source]), Tokens.of([[model.config.start_id, *target[:4]]]))
    with torch.no_grad():
        scores = model.module.logits(model.module(batch), "lm")[-1]
    best = scores.topk(5).indices.tolist()
    columns = {f"T = {t:g}": _shares(log_softmax(scores / t).exp(), best) for t in (1, 1.5, 2)}
    return _bars("A teacher after “Ich habe das Buch”, at three temperatures", [*_names(best), "all others"], columns)


def _shares(p: Tensor, best: list[int]) -> list[float]:
    """Return the probabilities of some tokens, and then that of all others."""
    return [*p[best].tolist(), float(1 - p[best].sum())]


def _bars(title: str, names: list[str], columns: dict[str, list[float]]) -> str:
    """Draw a row of bars for each name, one for each column."""
    body = [text(name, 130, 71 + 30 * row, anchor="end") for row, name in enumerate(names)]
    for column, (head, values) in enumerate(columns.items()):
        x, colour = 142 + 158 * column, COLOURS[column]
        body.append(text(head, x, 48, colour=colour, bold=True))
        for row, value in enumerate(values):
            y, told = 66 + 30 * row, f"{value:.2g}" if value > 1e-4 or not value else "< 0.0001"
            body.append(box(x, y - 9, max(110 * value, 0.5), 18, colour))
            body.append(text(told, x + 110 * value + 5, y + 5, size=11))
    return page(title, 640, 60 + 30 * len(names), body)


def beam() -> str:
    """The tokens that greedy search and a beam of four choose, with the probability of each."""
    model = _translator()
    searches = {name: model.translate([REPAIR], beam=size, scores=True)[0] for name, size in SEARCHES.items()}
    common = set.intersection(*(set(found.tokens) for found in searches.values()))
    body = []
    for row, (name, found) in enumerate(searches.items()):
        y, x, colour = 76 + 80 * row, 110.0, COLOURS[1 - row]
        body.append(text(name, 12, y + 4, bold=True, colour=colour))
        for token, score in zip(found.tokens, found.token_scores, strict=True):
            body.append(_token(token, x, y, marked=token not in common))
            body.append(text(f"{math.exp(score):.2f}", x + _wide(token) / 2, y + 27, anchor="middle", size=11))
            x += _wide(token) + 8
        whole = f"= {math.exp(sum(found.token_scores)):.3f}"
        body.append(text(whole, x + 4, y + 27, bold=True, colour=colour, size=11))
    return page(f"“{REPAIR}” The probability of each token, and of the whole", 680, 200, body)


def _wide(token: str) -> float:
    return 8.2 * len(token) + 14


def _token(token: str, x: float, y: float, *, marked: bool) -> str:
    """Draw a token in a box, with its left end at x."""
    name = text(token, x + _wide(token) / 2, y + 3, anchor="middle")
    return box(x, y - 15, _wide(token), 26, "#fbe3b5" if marked else "#eef3f8") + "\n" + name


def targets() -> str:
    """What four models read of one text, and what they learn to predict."""
    words = ["the", "old", "cat", "sat", "on", "the", "warm", "mat"]
    names = [*words, "[MASK]", "</s>", "<X>", "<Y>"]
    plain = np.arange(len(words))
    hidden, rows, _ = mask_tokens(
        plain, np.zeros(8, dtype=bool), mask_id=8, vocab_size=8, rng=np.random.default_rng(0), rate=0.25
    )
    marks = {"sentinels": [10, 11], "end_id": 9}
    source, target = corrupt_spans(plain, **marks, rng=np.random.default_rng(2), rate=0.35, mean_length=1.5)
    replaced = ["the", "old", "dog", "sat", "on", "the", "soft", "mat"]
    lines = {
        "BERT": ([names[i] for i in hidden], [words[row] for row in rows]),
        "ELECTRA": (replaced, ["same" if a == b else "new" for a, b in zip(words, replaced, strict=True)]),
        "GPT": (words, [*words[1:], "</s>"]),
        "T5": ([names[i] for i in source], [names[i] for i in target]),
    }
    body = []
    for row, (model, (read, learned)) in enumerate(lines.items()):
        y = 58 + 84 * row
        body.append(text(model, 12, y + 22, bold=True, colour=COLOURS[row]))
        for line, (what, tokens) in enumerate((("reads", read), ("learns", learned))):
            x = 152.0
            body.append(text(what, 96, y + 4 + 34 * line, size=11))
            for token in tokens:
                body.append(_token(token, x, y + 34 * line, marked=line == 1))
                x += _wide(token) + 6
    return page("What four models read of “the old cat sat on the warm mat”, and what they learn", 640, 380, body)


def skips() -> str:
    """How alike the tokens are after each layer, with and without skip connections and norms."""
    dim, layout = 64, Ragged.of([32])
    start, context = torch.randn(32, dim), PassContext.of(layout)
    lines = []
    for name in ("no skip, no norm", "post-norm", "pre-norm"):
        x, points = start, []
        for layer in range(25):
            unit = F.normalize(x, dim=-1)
            points.append((float(layer), float(((unit @ unit.T).sum() - 32) / (32 * 31))))
            for part, extra in ((SelfAttention(dim, 4), (context, Placement(), 0)), (FeedForward(dim, 4 * dim), ())):
                whole: nn.Module = part
                if not name.startswith("no"):
                    whole = Sublayer(part, nn.LayerNorm(dim), pre_norm=name == "pre-norm")
                with torch.no_grad():
                    x = whole(x, *extra)
        lines.append(Line(name, points))
    x_axis, y_axis = Axis("layer"), Axis("mean cosine between different tokens", low=0.0, high=1.0)
    return chart("Without skips, all tokens become one", lines, x_axis, y_axis)


def smoothing() -> str:
    """The loss over the probability of the right token of five, with and without label smoothing."""
    lines = {"plain": 0.0, "smoothed": 0.1}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in lines}
    for p in [0.3 + 0.01 * step for step in range(69)] + [0.985, 0.99, 0.995, 0.999]:
        log_p = torch.tensor([[p] + 4 * [(1 - p) / 4]]).log()
        for name, share in lines.items():
            found[name].append((p, float(cross_entropy(log_p, torch.tensor([0]), smoothing=share).total)))
    drawn = [Line(name, points) for name, points in found.items()]
    x, y = Axis("probability of the right token", high=1.0), Axis("loss", low=0.0)
    return chart("Label smoothing penalises a model that is too certain", drawn, x, y, right=110)


def warmup() -> str:
    """The learning rate schedules over 1,000 steps with 100 steps of warm-up."""
    steps = [*range(1, 100, 9), *range(100, 1001, 10)]
    lines = [
        Line(name, [(float(step), rate(name, step, warmup=100, total=1000)) for step in steps]) for name in SCHEDULES
    ]
    y = Axis("share of the peak rate", low=0.0, high=1.0)
    return chart("Learning rate schedules with warm-up", lines, Axis("step", low=0.0), y, right=110)


def patches() -> str:
    """An image, and the row of patches that a ViT reads."""
    scene = (
        '<g id="scene"><rect width="64" height="64" fill="#bfe3f5"/><circle cx="46" cy="15" r="9" fill="#f5c542"/>'
        '<path d="M0 46 Q16 34 32 46 T64 44 V64 H0Z" fill="#6aa84f"/>'
        '<path d="M10 52V36L20 27L30 36V52Z" fill="#c0504d"/>'
        '<rect x="17" y="41" width="6" height="11" fill="#fff3d6"/></g>'
    )
    body = [f"<defs>{scene}</defs>"]
    for number in range(16):
        row, column = divmod(number, 4)
        crop = f'viewBox="{16 * column} {16 * row} 16 16"'
        whole = f'x="{12 + 34 * column}" y="{60 + 34 * row}" width="32" height="32"'
        token = f'x="{222 + 28 * number}" y="{116}" width="25" height="25"'
        body += [f'<svg {place} {crop}><use href="#scene"/></svg>' for place in (whole, token)]
    body += [box(192, 116, 25, 25, COLOURS[3]), text("class token", 180, 105, colour=COLOURS[3])]
    body += [text("→", 160, 134, size=20), text("17 rows for the encoder", 670, 170, anchor="end")]
    return page("A ViT reads patches as words", 690, 215, body)


def cost() -> str:
    """Counted operations of one layer of each kind against the length of the sequence."""
    dim = 64
    parts: dict[str, Callable[[Tensor, Ragged], object]] = {
        "attention, mixing": lambda x, layout: eager(_mixing(x, layout)),
        "attention, all": lambda x, layout: attention(x, PassContext.of(layout), Placement(), 0),
        "GRU, both ways": RecurrentEncoder(dim, cell="gru"),
        "convolution, k = 3": CausalConvolution(dim, dim, width=3),
    }
    attention = SelfAttention(dim, 4)
    attention.kernel = eager
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in parts}
    for power in range(3, 11):
        length = 2**power
        for name, part in parts.items():
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                part(torch.randn(length, dim), Ragged.of([length]))
            lines[name].append((length, counter.get_total_flops()))
    drawn = [Line(name, points) for name, points in lines.items()]
    x, y = Axis("length n", log=2), Axis("operations", log=10, low=1e4)
    return chart(f"Operations of one layer of width {dim}", drawn, x, y)


def _mixing(x_TD: Tensor, layout: Ragged) -> Call:
    heads = x_TD.unflatten(-1, (4, -1))
    return Call(q=heads, k=heads, v=heads, queries=layout, keys=layout, scale=0.25)


def _translator() -> qkv.Model:
    return qkv.load("en-de", device="cpu")


def _pair(sentence: str) -> tuple[list[int], list[int]]:
    """Return the ids of a sentence and of its translation."""
    model = _translator()
    source, target = model.encode([sentence, *model.translate([sentence])]).ids
    return source, target


def _names(ids: list[int]) -> list[str]:
    tokenizer = _translator().tokenizer
    assert tokenizer is not None
    return [(tokenizer.token_of(number) or "").lstrip("▁") or "▁" for number in ids]


PICTURES = (
    gradients, likeness, lookup, scaling, heads, skips, clock, mask, cross, output, beam, smoothing, warmup, targets,
    patches, softened, cost,
)  # fmt: skip


def draw(folder: Path) -> list[Path]:
    """Write every picture; each starts from the same seed."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for make in PICTURES:
        torch.manual_seed(0)
        files.append(folder / f"{make.__name__}.svg")
        files[-1].write_text(make(), encoding="utf-8")
    return files


if __name__ == "__main__":
    for file in draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent):
        sys.stdout.write(f"{file}\n")
