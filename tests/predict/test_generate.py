"""Generating: samples that do not depend on the batch, stop strings, streams, windows, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from qkv.checkpoints.hf.generation import GenerationDefaults
from qkv.common.errors import UsageError
from qkv.predict import TOKENS_PER_BATCH, Generated, Model
from qkv.predict.generate import search_config
from qkv.tokenizers.kinds import KINDS
from tests.predict.writers import writer

PROMPTS = ["The small cat", "Two dogs", "I", "The old queen sees a red house in the garden."]


@pytest.fixture(scope="module")
def gpt() -> Model:
    return writer()


@pytest.fixture(scope="module")
def t5() -> Model:
    return writer("unigram", "t5-small")


@pytest.fixture(params=["gpt", "t5"])
def model(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def with_defaults(model: Model, **raw: Any) -> Model:
    return Model(replace(model.contents, generation=GenerationDefaults(raw)), device="cpu")


def texts(found: list[Generated]) -> list[str]:
    return [text for one in found for text in (one.text, *(other.text for other in one.others))]


@pytest.mark.parametrize("options", [{"temperature": 1.3}, {"sample": False}, {"beam": 3, "samples": 2}])
def test_a_text_does_not_depend_on_the_others(
    model: Model, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"max_length": 12, "seed": 5, **options}
    together = model.generate(PROMPTS, **options)
    assert len(set(texts(together))) > 2
    alone = [model.generate([prompt], **options)[0] for prompt in PROMPTS]
    assert texts(alone) == texts(together)
    assert texts(model.generate(PROMPTS[::-1], **options)[::-1]) == texts(together)
    monkeypatch.setitem(TOKENS_PER_BATCH, "cpu", 8)
    assert texts(model.generate(PROMPTS, **options)) == texts(together)


def test_samples_follow_the_seed_and_come_in_order(model: Model) -> None:
    options = {"max_length": 10, "temperature": 1.5}
    (three,) = model.generate(PROMPTS[:1], samples=3, seed=1, **options)
    (one,) = model.generate(PROMPTS[:1], seed=1, **options)
    assert one.text == three.text
    assert len(set(texts([three]))) == 3
    assert texts(model.generate(PROMPTS[:1], samples=3, seed=2, **options)) != texts([three])


def test_prompts_have_random_numbers_of_their_own() -> None:
    flat = writer("char", std=0.0)  # every token is as likely, so a text is its random numbers
    one, two, again = flat.generate(["The cat", "The dog", "The cat"], max_length=20, temperature=1.5)
    assert one.tokens == again.tokens
    assert one.tokens != two.tokens


def test_scores_are_the_model_s_own(gpt: Model, t5: Model) -> None:
    (found,) = gpt.generate(PROMPTS[:1], max_length=8, temperature=2.0)
    assert gpt.tokenizer is not None
    assert t5.tokenizer is not None
    read = gpt.tokenizer.encode(PROMPTS[:1]).ids[0]
    said = [gpt.tokenizer.id_of(token) for token in found.tokens]
    wanted = gpt.logits([read + said])[0].log_softmax(-1)[range(len(read) - 1, len(read) + 7), said]  # type: ignore[list-item]
    torch.testing.assert_close(torch.tensor(found.token_scores), wanted, rtol=1e-4, atol=1e-4)
    assert found.score == pytest.approx(sum(found.token_scores))
    (answer,) = t5.generate(PROMPTS[:1], max_length=6, sample=False, probabilities=3)
    assert answer.steps is not None
    assert [step.token for step in answer.steps] == [step.choices[0].word for step in answer.steps]
    assert [step.choices[0].score for step in answer.steps] == pytest.approx(
        [float(torch.tensor(score).exp()) for score in answer.token_scores], abs=1e-5
    )


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "char", "word"])
def test_the_text_is_what_the_prompt_and_it_decode_to(kind: str) -> None:
    model = writer(kind)
    assert model.tokenizer is not None
    for found, prompt in zip(model.generate(PROMPTS[:3], max_length=20, temperature=1.5), PROMPTS, strict=False):
        read = model.tokenizer.encode([prompt]).ids[0]
        said = [number for token in found.tokens if (number := model.tokenizer.id_of(token)) is not None]
        assert model.tokenizer.decode(read) + found.text == model.tokenizer.decode([*read, *said]).rstrip("\ufffd")


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_gives_the_text_and_no_half_characters(kind: str) -> None:
    model = writer(kind)
    for seed in range(3):
        heard: list[str] = []
        options: dict[str, Any] = {"temperature": 2.0, "max_length": 25, "seed": seed, "stop": ["e", "\n"]}
        (found,) = model.generate(["The small cat"], on_text=heard.append, **options)
        assert "".join(heard) == found.text == model.generate(["The small cat"], **options)[0].text
        assert not any(stop in found.text for stop in ("e", "\n"))


@settings(max_examples=15, deadline=None)
@given(start=st.integers(0, 14), size=st.integers(1, 5))
def test_a_stop_string_is_found_across_tokens(start: int, size: int) -> None:
    """Any part of what is generated, as a stop string, ends the text where that part first occurs."""
    model = CHARACTERS
    (free,) = model.generate(["The"], **DRAWN)
    stop = free.text[start : start + size]
    (found,) = model.generate(["The"], stop=[stop], **DRAWN)
    assert found.text == free.text[: free.text.index(stop)]
    assert found.ended == "stop"
    beside = model.generate(["The", "Two dogs"], stop=[stop], **DRAWN)[0]
    assert (beside.text, beside.ended, beside.tokens) == (found.text, found.ended, found.tokens)
    assert len("".join(found.tokens)) < len(free.text)
    assert len(found.tokens) == len(found.token_scores)


CHARACTERS = writer("char")
DRAWN: dict[str, Any] = {"temperature": 1.5, "max_length": 20, "seed": 4}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sample": False},
        {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "samples": 3},
        {"temperature": 1.3, "stop": ["e", "\n"]},
        {"temperature": 1.3, "window": True, "max_length": 60},
        {"sample": False, "probabilities": 2},
    ],
    ids=str,
)
def test_steps_that_can_be_recorded_give_the_same_texts(
    model: Model, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The searches that are recorded on CUDA, here without the recording; also with two end tokens, and as a stream."""
    if "window" in options and model.family == "t5":
        return
    free = model.generate(PROMPTS, max_length=12, seed=4, temperature=1.3)
    assert model.tokenizer is not None
    ends = [model.tokenizer.id_of(one.tokens[-2]) for one in free[:2]]
    ready, options = with_defaults(model, do_sample=True, eos_token_id=ends), {"max_length": 12, "seed": 4} | options
    wanted = ready.generate(PROMPTS, **options)
    monkeypatch.setattr("qkv.nn.kernels.recordable", lambda *_, **__: True)
    found = ready.generate(PROMPTS, **options)
    steppers: Any = ready.module
    assert len(steppers.steppers) > 0
    assert texts(found) == texts(wanted)
    assert [(one.ended, one.tokens) for one in found] == [(one.ended, one.tokens) for one in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.token_scores == pytest.approx(theirs.token_scores, abs=1e-4)
    if "samples" not in options and "probabilities" not in options:
        heard: list[str] = []
        ready.generate(PROMPTS[:1], on_text=heard.append, **options)
        assert "".join(heard) == wanted[0].text
    steppers.steppers.clear()


def test_a_prompt_is_never_cut_in_silence(gpt: Model, t5: Model) -> None:
    long = "The small cat sleeps. " * 10
    assert gpt.tokenizer is not None
    size = len(gpt.tokenizer.encode([long]).ids[0])
    with pytest.raises(UsageError, match=f"prompt 1 has {size} tokens, and the context of this model is 48"):
        gpt.generate(["I", long])
    (found,) = gpt.generate([long], window=True, max_length=5)
    assert len(found.tokens) == 5
    with pytest.raises(UsageError, match="and max_length is 60, together more than the context of 48: ask for at most"):
        gpt.generate(["The cat"], max_length=60)
    short = writer("unigram", "t5-small", max_length=20)
    with pytest.raises(UsageError, match=r"prompt 0 has \d+ tokens, and this model reads 20"):
        short.generate([long])
    with pytest.raises(UsageError, match="for models that continue a text"):
        t5.generate(["a"], window=True)


def test_a_window_moves_along() -> None:
    """The first tokens are those without a window; each later round reads the last half of the context."""
    model = CHARACTERS
    options: dict[str, Any] = {"sample": False, "window": True}
    (found,) = model.generate(["The small cat"], max_length=100, **options)
    assert len(found.tokens) == 100
    assert model.tokenizer is not None
    ids = [*model.tokenizer.encode(["The small cat"]).ids[0], *map(model.tokenizer.id_of, found.tokens)]
    room = 48 - len("The small cat")
    assert found.tokens[:room] == model.generate(["The small cat"], sample=False)[0].tokens
    for begin, start, stop in ((0, 13, 48), (24, 48, 72), (48, 72, 96), (72, 96, 113)):
        best = model.logits([ids[begin : stop - 1]])[0].argmax(-1).tolist()  # type: ignore[list-item]
        assert best[start - begin - 1 :] == ids[start:stop]
    heard: list[str] = []
    model.generate(["The small cat"], max_length=100, on_text=heard.append, **options)
    assert "".join(heard) == found.text
    flat = writer("char", std=0.0)  # every token is as likely, so a text is its random numbers
    drawn = flat.generate(["The small cat"], max_length=100, window=True, temperature=1.5)[0].tokens
    assert drawn[room : room + 20] != drawn[:20]  # a round has its own


def test_a_text_ends_where_the_context_does(gpt: Model) -> None:
    assert gpt.tokenizer is not None
    (found,) = gpt.generate(["The small cat"], sample=False)
    assert found.ended == "length"
    assert len(found.tokens) + len(gpt.tokenizer.encode(["The small cat"]).ids[0]) == 48


def test_the_end_token_ends_a_text(gpt: Model) -> None:
    (free,) = gpt.generate(["The small cat"], max_length=9, sample=False)
    assert gpt.tokenizer is not None
    place = next(place for place, token in enumerate(free.tokens) if place > 1 and token not in free.tokens[:place])
    third, other = gpt.tokenizer.id_of(free.tokens[place]), gpt.tokenizer.id_of("Z")
    for ends in (third, [other, third], [third, other]):
        model = with_defaults(gpt, eos_token_id=ends)
        (found,) = model.generate(["The small cat"], max_length=9, sample=False)
        assert (found.ended, found.tokens) == ("end", free.tokens[: place + 1])
        assert found.token_scores == pytest.approx(free.token_scores[: place + 1], abs=1e-5)
        assert free.text.startswith(found.text)


def test_what_the_folder_says_and_what_you_ask_for(gpt: Model) -> None:
    drawn = with_defaults(gpt, do_sample=True, temperature=0.7, top_p=0.9)
    config = search_config(drawn, 1, {})
    assert (config.sample, config.temperature, config.top_k, config.top_p) == (True, 0.7, 50, 0.9)
    assert not search_config(drawn, 1, {"sample": False}).sample
    beam = search_config(drawn, 2, {"beam": 4})
    assert (beam.sample, beam.beam, beam.nbest, beam.temperature) == (False, 4, 2, 1.0)
    wide = with_defaults(gpt, num_beams=4, length_penalty=0.6, no_repeat_ngram_size=3)
    config = search_config(wide, 3, {})
    assert (config.beam, config.nbest, config.length_penalty, config.no_repeat_ngram) == (4, 3, 0.6, 3)
    config = search_config(wide, 3, {"top_k": 5})
    assert (config.sample, config.beam, config.nbest, config.no_repeat_ngram) == (True, 1, 1, 3)
    assert search_config(drawn, 1, {"temperature": 0.0, "top_k": 3}) == search_config(drawn, 1, {"sample": False})
    assert search_config(wide, 5, {}).sample  # more texts than the beam can give
    assert len(with_defaults(gpt, max_new_tokens=3).generate(["I"])[0].tokens) == 3
    assert len(with_defaults(gpt, max_length=4).generate(["I"])[0].tokens) == 3


def test_prefix_and_suffix_of_the_folder(gpt: Model, tmp_path: Any) -> None:
    dressed = Model(replace(gpt.contents, prefix="The ", suffix=" dogs"), device="cpu")
    dressed.save(tmp_path / "dressed")
    again = qkv.load(tmp_path / "dressed", device="cpu")
    wanted = texts(gpt.generate(["The two dogs"], max_length=8))
    for prompt in ("two", "two dogs"):
        assert texts(again.generate([prompt], max_length=8)) == wanted
    assert texts(again.generate(["two"], prefix="A ", max_length=8)) == texts(
        gpt.generate(["A two dogs"], max_length=8)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": [""]}, "a stop string is empty"),
        ({"stop": "x"}, "stop takes a list"),
        ({"stop": ["x"], "beam": 2}, "stop strings and a beam of 2 do not go together"),
        ({"window": True, "beam": 2}, "a window and a beam of 2"),
        ({"max_length": 0}, "max_length must be at least 1"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"samples": 3, "beam": 2}, "nbest 3 is more than the beam of 2"),
        ({"temperature": -1.0}, "temperature must be greater than 0"),
        ({"sample": False, "top_k": 3}, "top_k changes nothing without sample"),
        ({"temprature": 1.0}, "temperature"),
        ({"on_text": print, "samples": 2}, "streamed for one prompt"),
    ],
)
def test_wrong_settings_are_refused(gpt: Model, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gpt.generate(["The cat"], **options)


def test_models_that_cannot_write_say_so() -> None:
    bert = qkv.build("bert-tiny", vocab_size=50, device="cpu")
    with pytest.raises(UsageError, match="no tokenizer"):
        bert.generate(["x"])


def test_an_empty_prompt_begins_a_text(gpt: Model) -> None:
    assert gpt.tokenizer is not None
    (found,) = gpt.generate([""], max_length=4, sample=False)
    begin = gpt.tokenizer.specials["end"]
    assert gpt.tokenizer.id_of(found.tokens[0]) == int(gpt.logits([[begin]])[0][-1].argmax())
