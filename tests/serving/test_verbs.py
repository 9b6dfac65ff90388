"""Every verb over HTTP gives what the verb gives in Python, alone and batched."""

from __future__ import annotations

import base64
import io
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from qkv.predict.classify import to_dict
from qkv.predict.translate import translate
from tests.serving.server import Server

TEXTS = ["the cat sat on a mat", "two dogs run", "", "a dog , a cat and the mat !", "the the the the"]


def same(a: Any, b: Any) -> bool:
    """Whether two answers are equal: texts and labels identical, numbers within 1e-5."""
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def png(colour: int) -> str:
    image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image.new("RGB", (16, 16), (colour, 255 - colour, 9)).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "translate": (
        "en-de",
        {"texts": TEXTS, "nbest": 2, "alignments": True, "beam": 3},
        lambda m, b: [one.to_dict(others=True) for one in translate(m, b["texts"], nbest=2, alignments=True, beam=3)],
    ),
    "generate": (
        "writer",
        {"texts": ["The cat", "Two dogs"], "max_length": 12, "temperature": 0.9, "seed": 4, "tokens": True},
        lambda m, b: [
            one.to_dict(tokens=True) for one in m.generate(b["texts"], max_length=12, temperature=0.9, seed=4)
        ],
    ),
    "classify": (
        "reviews",
        {"texts": TEXTS, "every": True},
        lambda m, b: [to_dict(one) for one in m.classify(b["texts"], every=True)],
    ),
    "pairs": (
        "reviews",
        {"texts": TEXTS, "pairs": TEXTS[::-1]},
        lambda m, b: [to_dict(one) for one in m.classify(b["texts"], b["pairs"])],
    ),
    "tag": (
        "names",
        {"texts": TEXTS},
        lambda m, b: [{"entities": [one.to_dict() for one in found]} for found in m.tag(b["texts"])],
    ),
    "answer": (
        "reader",
        {"texts": ["who sat ?", "what ran ?"], "contexts": TEXTS[0], "nbest": 3},
        lambda m, b: [one.to_dict(others=True) for one in m.answer(b["texts"], b["contexts"], nbest=3)],
    ),
    "fill": (
        "words",
        {"texts": ["the [MASK] sat", "[MASK] [MASK] run"], "top": 3},
        lambda m, b: [{"masks": [[c.to_dict() for c in mask] for mask in one]} for one in m.fill(b["texts"], top=3)],
    ),
    "embed": (
        "words",
        {"texts": TEXTS, "normalize": True},
        lambda m, b: [{"embedding": row} for row in m.embed(b["texts"], normalize=True).tolist()],
    ),
    "similar": (
        "words",
        {"texts": TEXTS[:2], "pairs": TEXTS[3:]},
        lambda m, b: [{"cosine": m.similar(*pair)} for pair in zip(b["texts"], b["pairs"], strict=True)],
    ),
    "look": (
        "en-de",
        {"texts": ["Two dogs play."], "layer": 1, "head": 2},
        lambda m, b: [m.look(b["texts"][0]).to_dict(1, 2)],
    ),
    "explain": (
        "reviews",
        {"texts": ["the cat sat", "a dog"]},
        lambda m, b: [{"explanations": [one.to_dict()]} for one in m.explain(b["texts"])],
    ),
}


@pytest.mark.parametrize("verb", CASES)
def test_an_answer_is_that_of_the_python_verb(server: Server, models: dict[str, Any], verb: str) -> None:
    name, body, oracle = CASES[verb]
    found = server.ask(f"/v1/{verb}", model=name, **body)
    wanted = oracle(models[name], body)
    if verb == "look":
        for one in [*found["answers"], *wanted]:
            one.pop("model")
    assert found["model"] == name
    assert same(found["answers"], wanted), (found["answers"], wanted)


def test_answers_are_the_same_bit_for_bit_while_others_look(server: Server) -> None:
    """The attention of every model that answers is looked at meanwhile."""
    bodies = [(verb, {"model": name} | body) for verb, (name, body, _) in CASES.items() if verb != "look"]
    bodies.append(("image", {"model": "pictures", "texts": [png(10)], "every": True}))
    looks = {body["model"]: {"texts": ["the cat sat"]} for _, body in bodies} | {"pictures": {"texts": [png(200)]}}

    def answers() -> list[Any]:
        return [server.ask(f"/v1/{verb}", **body)["answers"] for verb, body in bodies]

    def looked(name: str) -> int:
        return len(server.ask("/v1/look", model=name, **looks[name])["answers"][0]["weights"])

    alone = answers()
    with ThreadPoolExecutor(3) as pool:
        found = [pool.submit(looked, name) for name in sorted(looks) * 5]
        beside = [answers(), answers()]
        assert all(one.result() for one in found)
    assert beside == [alone, alone]


def test_images_are_classified_and_never_read_from_paths(server: Server, models: dict[str, Any], tmp_path: Any) -> None:
    images = [png(10), "data:image/png;base64," + png(200)]
    found = server.ask("/v1/image", texts=images, every=True)["answers"]
    files = []
    for number, colour in enumerate((10, 200)):
        files.append(tmp_path / f"{number}.png")
        files[-1].write_bytes(base64.b64decode(png(colour)))
    wanted = [to_dict(one) for one in models["pictures"].classify(files, every=True)]
    assert same(found, wanted)
    assert server.ask("/v1/look", model="pictures", texts=images[:1])["answers"][0]["rows"][0] == "[class]"
    for path in ("/v1/image", "/v1/look"):
        told = server.refused(path, 422, model="pictures", texts=[str(files[0])])
        assert "image 0 is not base64" in told
    hidden = base64.b64encode(b"not an image").decode()
    assert server.refused("/v1/image", 422, texts=[hidden]).startswith("image 0: not an image")
    assert "cannot classify" in server.refused("/v1/classify", 422, model="pictures", texts=[str(files[0])])


def test_similarities_and_hits_are_cosines_of_the_vectors(server: Server, models: dict[str, Any]) -> None:
    unit = models["words"].embed(TEXTS[:3], normalize=True)
    rows = [one["cosines"] for one in server.ask("/v1/similar", model="words", texts=TEXTS[:3])["answers"]]
    np.testing.assert_allclose(rows, unit @ unit.T, atol=1e-5)
    (found,) = server.ask("/v1/search", model="words", texts=["dogs"], lines=["", *TEXTS], top=2)["answers"]
    near = models["words"].embed(["dogs"], normalize=True) @ models["words"].embed(TEXTS, normalize=True).T
    best = max((number for number in range(len(TEXTS)) if TEXTS[number]), key=lambda number: near[0, number])
    assert found["hits"][0]["line"] == best + 2
    assert found["hits"][0]["text"] == TEXTS[best]
    assert len(found["hits"]) == 2


@pytest.mark.parametrize("verb", ["translate", "classify", "tag", "fill", "embed", "generate"])
def test_answers_are_the_same_alone_and_among_others(server: Server, verb: str) -> None:
    name, body, _ = CASES[verb]
    bodies = [body | {"texts": [text]} for text in body["texts"]] * 6
    alone = [server.ask(f"/v1/{verb}", model=name, **one)["answers"] for one in bodies[: len(body["texts"])]]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda one: server.ask(f"/v1/{verb}", model=name, **one)["answers"], bodies))
    assert all(same(one, alone[number % len(alone)]) for number, one in enumerate(found))


def test_a_mistake_in_a_batch_is_that_of_one_client(server: Server) -> None:
    texts = ["the [MASK] sat", "no mask here"] * 8
    with ThreadPoolExecutor(16) as pool:
        found = list(
            pool.map(lambda text: server.client.post("/v1/fill", json={"model": "words", "texts": [text]}), texts)
        )
    assert [one.status_code for one in found] == [200, 422] * 8
    assert all("no mask in 'no mask here'" in one.json()["error"]["message"] for one in found[1::2])


def test_texts_that_are_cut_are_told(server: Server) -> None:
    long = "cat " * 60
    found = server.ask("/v1/classify", model="reviews", texts=[long, "cat"])
    assert found["warnings"] == ["1 of 2 texts were cut to 40 tokens"]
    assert "warnings" not in server.ask("/v1/classify", model="reviews", texts=["cat"])


def test_without_a_name_the_model_that_fits_answers(server: Server) -> None:
    for verb, name in {"classify": "reviews", "tag": "names", "translate": "en-de", "fill": "words"}.items():
        assert server.ask(f"/v1/{verb}", texts=["the [MASK]"])["model"] == name
    assert server.ask("/v1/embed", texts=["a"])["model"] == "reviews"
