"""Clients of other servers: the real `openai` package, and the requests of text-embeddings-inference's clients."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pytest

from tests.serving.server import Server
from tests.serving.test_verbs import TEXTS, same

openai = pytest.importorskip("openai")


@pytest.fixture(scope="module")
def client(server: Server) -> Any:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as found:
        yield found


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_openai_embeddings(client: Any, models: dict[str, Any], encoding: str | None) -> None:
    options = {} if encoding is None else {"encoding_format": encoding}
    found = client.embeddings.create(model="words", input=TEXTS, **options)
    wanted = models["words"].embed(TEXTS, normalize=True)
    given = [one.embedding for one in found.data]
    if encoding == "base64":  # as the client asked for it; without a choice it decodes them
        given = [np.frombuffer(base64.b64decode(one), "<f4") for one in given]
    np.testing.assert_allclose(given, wanted, atol=1e-5)
    assert [one.index for one in found.data] == list(range(len(TEXTS)))
    count = sum(map(len, models["words"].encode(TEXTS).ids))
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (count, count)


def test_openai_completions(client: Any, models: dict[str, Any]) -> None:
    prompts, options = ["The cat", "Two dogs"], {"temperature": 0.9, "seed": 3, "top_p": 0.9}
    found = client.completions.create(
        model="writer", prompt=prompts, max_tokens=12, n=2, stop="e", logprobs=2, echo=True, **options
    )
    wanted = models["writer"].generate(prompts, max_length=12, samples=2, stop=["e"], probabilities=2, **options)
    flat = [(prompt, one) for prompt, first in zip(prompts, wanted, strict=True) for one in (first, *first.others)]
    assert [choice.text for choice in found.choices] == [prompt + one.text for prompt, one in flat]
    reasons = ["length" if one.ended == "length" else "stop" for _, one in flat]
    assert [choice.finish_reason for choice in found.choices] == reasons
    for choice, (_, one) in zip(found.choices, flat, strict=True):
        assert same(choice.logprobs.token_logprobs, one.token_scores)
        tops = [[math.exp(value) for value in top.values()] for top in choice.logprobs.top_logprobs]
        for top, step in zip(tops, one.steps, strict=True):
            assert same(sorted(top), sorted({choice.word: choice.score for choice in step.choices}.values()))
    assert found.usage.completion_tokens == sum(len(one.tokens) for _, one in flat)


def test_openai_completions_as_a_stream(client: Any, models: dict[str, Any]) -> None:
    prompts = ["The cat", "Two dogs"]
    texts, reasons = ["", ""], [None, None]
    for chunk in client.completions.create(model="writer", prompt=prompts, max_tokens=9, stream=True):
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
        reasons[choice.index] = choice.finish_reason
    wanted = models["writer"].generate(prompts, max_length=9)
    assert texts == [one.text for one in wanted]
    assert reasons == ["length", "length"]


def test_openai_errors_are_its_own_exceptions(client: Any) -> None:
    assert {model.id for model in client.models.list()} >= {"words", "writer", "en-de"}
    assert client.models.retrieve("words").owned_by == "qkv"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-4' here"):
        client.embeddings.create(model="gpt-4", input="a")
    with pytest.raises(openai.UnprocessableEntityError, match="no other number") as caught:
        client.embeddings.create(model="words", input="a", dimensions=3)
    assert caught.value.param == "dimensions"


def test_tei_embed(server: Server, models: dict[str, Any]) -> None:
    unit = models["words"].embed(TEXTS, normalize=True)
    np.testing.assert_allclose(server.ask("/embed", model="words", inputs=TEXTS), unit, atol=1e-5)
    plain = models["words"].embed(TEXTS[:1])
    np.testing.assert_allclose(server.ask("/embed", model="words", inputs=TEXTS[0], normalize=False), plain, atol=1e-5)
    assert "set truncate to cut it" in server.refused("/embed", 422, model="words", inputs=["cat " * 60])
    assert len(server.ask("/embed", model="words", inputs=["cat " * 60], truncate=True)) == 1


def test_tei_predict(server: Server, models: dict[str, Any]) -> None:
    wanted = [[one.to_dict() for one in row] for row in models["reviews"].classify(TEXTS, every=True)]
    assert same(server.ask("/predict", model="reviews", inputs=TEXTS[0]), wanted[0])
    assert same(server.ask("/predict", model="reviews", inputs=TEXTS), wanted)
    assert same(server.ask("/predict", model="reviews", inputs=[[text] for text in TEXTS]), wanted)
    pairs = models["reviews"].classify(TEXTS, TEXTS[::-1], every=True)
    found = server.ask("/predict", model="reviews", inputs=list(zip(TEXTS, TEXTS[::-1], strict=True)))
    assert same(found, [[one.to_dict() for one in row] for row in pairs])
    assert "texts or pairs" in server.refused("/predict", 422, inputs=["a", ["b", "c"]])
    assert server.ask("/predict", model="scores", inputs=TEXTS[0])[0]["label"] == "LABEL_0"


def test_tei_rerank(server: Server, models: dict[str, Any]) -> None:
    found = server.ask("/rerank", model="words", query="dogs", texts=TEXTS, return_text=True)
    cosines = [models["words"].similar("dogs", text) for text in TEXTS]
    assert [row["index"] for row in found] == sorted(range(len(TEXTS)), key=lambda number: -cosines[number])
    assert same([row["score"] for row in found], sorted(cosines, reverse=True))
    assert all(row["text"] == TEXTS[row["index"]] for row in found)
    numbers = models["scores"].classify(["dogs"] * len(TEXTS), TEXTS)
    raw = server.ask("/rerank", model="scores", query="dogs", texts=TEXTS, raw_scores=True)
    assert same([row["score"] for row in raw], sorted(numbers, reverse=True))
    squashed = server.ask("/rerank", model="scores", query="dogs", texts=TEXTS)
    assert same([row["score"] for row in squashed], [1 / (1 + math.exp(-x)) for x in sorted(numbers, reverse=True)])
