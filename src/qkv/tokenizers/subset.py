"""Cut a tokenizer down to the tokens that some texts use; the same text then has the same tokens, with new numbers.

WordPiece  takes the longest piece that fits: without pieces that were not taken, the same ones are the longest
BPE        every merge that led to a kept token stays, and so do its parts; the merges that happen stay in their order
Unigram    the best path stays the best among fewer; the piece with the lowest score stays too, because the score of an
           unknown character depends on it
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from tokenizers import Tokenizer, pre_tokenizers

from qkv.common.errors import UsageError
from qkv.tokenizers.text import TextTokenizer

CHUNK = 1024  # texts encoded at a time
Vocabulary = Mapping[str, int]


def subset(
    tokenizer: TextTokenizer, texts: Iterable[str], always: Collection[int] = ()
) -> tuple[TextTokenizer, list[int]]:
    """Return a tokenizer with the tokens of some texts, and their old numbers in the order of the new ones.

    Special and added tokens stay. So does every letter of a kept token by itself, and with byte-level tokens every
    byte, so that words of other texts are still split into pieces.

    Args:
        tokenizer: the tokenizer to cut down; it is not changed.
        texts: the texts.
        always: tokens that stay in any case.
    """
    whole = tokenizer.files()["tokenizer.json"].decode()
    raw: dict[str, Any] = json.loads(whole)
    names = Tokenizer.from_str(whole).get_vocab(with_added_tokens=True)
    of = {number: name for name, number in names.items()}
    kept = {number for number in _used(tokenizer, texts) if number in of}
    kept |= {token["id"] for token in raw["added_tokens"]} | set(tokenizer.specials.values()) | set(always)
    if lost := [number for number in always if number not in of]:
        raise UsageError(f"the tokenizer does not know token {lost[0]}, which the model's config names")
    wanted = {of[number] for number in kept} | _letters(raw, names, [of[number] for number in kept])
    _MODELS[raw["model"]["type"]](raw["model"], wanted)  # adds what the wanted tokens need, and cuts
    left = sorted(names[name] for name in wanted)
    place = {of[old]: new for new, old in enumerate(left)}
    _renumber(raw, place)
    made = TextTokenizer(Tokenizer.from_str(json.dumps(raw)), _settings(tokenizer.settings, of, place))
    if any(made.id_of(name) != new for name, new in place.items()) or made.vocab_size != len(place):
        raise UsageError("this tokenizer numbers its tokens by itself, so that none can be removed")
    return made, left


def _used(tokenizer: TextTokenizer, texts: Iterable[str]) -> set[int]:
    found: set[int] = set()
    stream = iter(texts)
    while some := list(islice(stream, CHUNK)):
        found.update(*tokenizer.encode(some).ids)
    return found


def _letters(raw: Mapping[str, Any], names: Vocabulary, kept: Iterable[str]) -> set[str]:
    """Return the tokens that are a single letter, or byte, of the kept ones."""
    model = raw["model"]
    before, after = (model.get(key) or "" for key in ("continuing_subword_prefix", "end_of_word_suffix"))

    def plain(name: str) -> str:
        return name.removeprefix(before).removesuffix(after)

    known = {letter for name in kept for letter in plain(name)}
    if '"ByteLevel"' in json.dumps(raw["pre_tokenizer"]):
        known |= set(pre_tokenizers.ByteLevel.alphabet())
    found = {name for name in names if len(plain(name)) == 1 and plain(name) in known}
    return found | ({f"<0x{byte:02X}>" for byte in range(256)} & names.keys() if model.get("byte_fallback") else set())


def _cut_pieces(model: dict[str, Any], wanted: set[str]) -> None:
    """Cut the vocabulary of WordPiece and WordLevel."""
    if isinstance(unknown := model.get("unk_token"), str) and unknown in model["vocab"]:
        wanted.add(unknown)
    model["vocab"] = {name: number for name, number in model["vocab"].items() if name in wanted}


def _cut_merges(model: dict[str, Any], wanted: set[str]) -> None:
    """Cut the vocabulary of BPE, with every way to make a kept token."""
    before = model.get("continuing_subword_prefix") or ""
    merges = [tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in model["merges"]]
    ways: dict[str, list[tuple[str, ...]]] = {}
    for first, second in merges:
        ways.setdefault(first + second.removeprefix(before), []).append((first, second))
    left = list(wanted)
    while left:
        for way in ways.get(left.pop(), ()):
            left += [part for part in way if part not in wanted]
            wanted.update(way)
    _cut_pieces(model, wanted)
    model["merges"] = [list(way) for way in merges if {*way, way[0] + way[1].removeprefix(before)} <= wanted]


def _cut_scores(model: dict[str, Any], wanted: set[str]) -> None:
    """Cut the vocabulary of Unigram, and renumber its unknown token."""
    pieces = model["vocab"]
    wanted.add(min(pieces, key=lambda piece: piece[1])[0])
    unknown = None if model["unk_id"] is None else pieces[model["unk_id"]][0]
    wanted.update([] if unknown is None else [unknown])
    model["vocab"] = [piece for piece in pieces if piece[0] in wanted]
    if unknown is not None:
        model["unk_id"] = next(number for number, piece in enumerate(model["vocab"]) if piece[0] == unknown)


_MODELS: dict[str, Callable[[dict[str, Any], set[str]], None]] = {
    "WordPiece": _cut_pieces,
    "WordLevel": _cut_pieces,
    "BPE": _cut_merges,
    "Unigram": _cut_scores,
}


def _renumber(raw: dict[str, Any], place: Vocabulary) -> None:
    """Write the new numbers of the tokens wherever the file has old ones."""
    for token in raw["added_tokens"]:
        token["id"] = place[token["content"]]
    if isinstance(vocabulary := raw["model"]["vocab"], dict):
        raw["model"]["vocab"] = {name: place[name] for name in sorted(vocabulary, key=lambda name: place[name])}
    for part in _tables(raw["post_processor"]):
        if "ids" in part and "tokens" in part:
            part["ids"] = [place[name] for name in part["tokens"]]
        for side in ("sep", "cls"):
            if isinstance(pair := part.get(side), list):
                part[side] = [pair[0], place[pair[0]]]


def _tables(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every table inside a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
    for one in inner:
        yield from _tables(one)


def _settings(old: Mapping[str, Any], of: Mapping[int, str], place: Vocabulary) -> dict[str, Any]:
    """Renumber the tokens in tokenizer_config.json."""
    found = dict(old)
    if isinstance(known := old.get("added_tokens_decoder"), Mapping):
        found["added_tokens_decoder"] = {
            str(place[of[int(number)]]): token for number, token in known.items() if int(number) in of
        }
    return found
