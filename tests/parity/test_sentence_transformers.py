"""Folders of sentence-transformers: read, answered with the same vectors, and written so that it reads them.

The reference is written by hand over the states of `transformers`, a text at a time; where the package itself is
installed, it answers too.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import save_file

import qkv
from qkv.common.errors import QkvError, UsageError
from tests.tokenizers.conftest import CORPUS, train

INSTALLED = importlib.util.find_spec("sentence_transformers") is not None
TEXTS = [*CORPUS[:4], "the cat", "Two dogs"]
OLD = {
    "cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken",
}  # fmt: skip
OURS = {"cls": "first", "lasttoken": "last", "weightedmean": "weighted_mean", "mean_sqrt_len_tokens": "mean_sqrt"}
KIND = "sentence_transformers.models."
PROMPTS = {"query": "find: ", "document": "", "long": "Two dogs play: "}


def dump(file: Path, raw: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(raw))


@pytest.fixture(scope="module")
def base(tmp_path_factory: Any) -> Path:
    """A random BERT and its tokenizer."""
    folder = tmp_path_factory.mktemp("sentence") / "bert"
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    tokenizer = train("wordpiece", specials="bert", min_frequency=1)
    model = hf.BertModel(hf.BertConfig(**sizes, vocab_size=tokenizer.vocab_size, max_position_embeddings=90)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    tokenizer.save(folder)
    return folder


def folder_of(base: Path, place: Path, *after: str, pooling: dict[str, Any], prompts: Any = None) -> Path:
    """Write the files of sentence-transformers beside the model."""
    import shutil

    shutil.copytree(base, place)
    names = ["Transformer", "Pooling", *after]
    paths = ["", *(f"{i}_{name}" for i, name in enumerate(names[1:], 1))]
    rows = zip(range(len(names)), paths, names, strict=True)
    dump(place / "modules.json", [{"idx": i, "name": str(i), "path": p, "type": KIND + n} for i, p, n in rows])
    dump(place / "1_Pooling" / "config.json", {"word_embedding_dimension": 32} | pooling)
    dump(place / "sentence_bert_config.json", {"max_seq_length": 60, "do_lower_case": False})
    if prompts is not None:
        dump(place / "config_sentence_transformers.json", prompts)
    torch.manual_seed(3)
    width = 32 * max(1, len(pooling["pooling_mode"]) if isinstance(pooling.get("pooling_mode"), list) else 1)
    for path, name in zip(paths, names, strict=True):
        if name == "Dense":
            facts = {"in_features": width, "out_features": 12, "bias": True}
            dump(place / path / "config.json", facts | {"activation_function": "torch.nn.modules.activation.Tanh"})
            tensors = {"linear.weight": torch.randn(12, width), "linear.bias": torch.randn(12)}
            save_file(tensors, place / path / "model.safetensors", metadata={"format": "pt"})
            width = 12
    return place


def pooled(x: torch.Tensor, way: str, skip: int) -> torch.Tensor:
    kept = x[skip:]
    weights = torch.arange(skip + 1, len(x) + 1).unsqueeze(-1).float()
    found = {
        "cls": kept[0],
        "max": kept.max(0).values,
        "mean": kept.mean(0),
        "mean_sqrt_len_tokens": kept.sum(0) / len(kept) ** 0.5,
        "weightedmean": (kept * weights).sum(0) / weights.sum(),
        "lasttoken": x[-1],
    }
    return found[way]


@torch.no_grad()
def reference(base: Path, folder: Path, ways: list[str], prompt: str = "", skip: int = 0) -> np.ndarray[Any, Any]:
    """What the modules of a folder make of the states of `transformers`."""
    from safetensors.torch import load_file

    model, tokenizer = hf.BertModel.from_pretrained(base).eval(), hf.AutoTokenizer.from_pretrained(base)
    rows = []
    for text in TEXTS:
        states = model(**tokenizer(prompt + text, return_tensors="pt")).last_hidden_state[0]
        x = torch.cat([pooled(states, way, skip) for way in ways])
        for row in json.loads((folder / "modules.json").read_text())[2:]:
            if row["type"].endswith("Dense"):
                tensors = load_file(folder / row["path"] / "model.safetensors")
                x = torch.tanh(tensors["linear.weight"] @ x + tensors["linear.bias"])
            else:
                x = x / x.norm()
        rows.append(x)
    return torch.stack(rows).numpy()


def installed(folder: Path, **options: Any) -> np.ndarray[Any, Any] | None:
    """What the package itself gives."""
    if not INSTALLED:
        return None
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").encode(TEXTS, **options)


def check(base: Path, folder: Path, ways: list[str], tmp_path: Path) -> None:
    """The folder, and the one that qkv writes of it, give the reference's vectors, here and there."""
    wanted = reference(base, folder, ways)
    model = qkv.load(folder, device="cpu")
    assert model.pooling == "+".join(OURS.get(way, way) for way in ways)
    model.save(tmp_path / "again")
    again = qkv.load(tmp_path / "again", device="cpu")
    np.testing.assert_allclose(model.embed(TEXTS), wanted, atol=2e-5)
    np.testing.assert_array_equal(again.embed(TEXTS), model.embed(TEXTS))
    assert model.embed([]).shape == (0, wanted.shape[1])
    np.testing.assert_allclose(reference(tmp_path / "again", tmp_path / "again", ways), wanted, atol=2e-5)
    for place in (folder, tmp_path / "again"):
        if (found := installed(place)) is not None:
            np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize("way", OLD)
@pytest.mark.parametrize("spelling", ["old", "new"])
def test_every_pooling_in_both_spellings(base: Path, tmp_path: Path, way: str, spelling: str) -> None:
    old = {f"pooling_mode_{key}": name == way for name, key in OLD.items()}
    folder = folder_of(base, tmp_path / "model", pooling=old if spelling == "old" else {"pooling_mode": way})
    check(base, folder, [way], tmp_path)


def test_several_poolings_are_joined(base: Path, tmp_path: Path) -> None:
    old = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}
    check(base, folder_of(base, tmp_path / "old", pooling=old), ["cls", "max", "mean"], tmp_path / "a")
    new = {"pooling_mode": ["mean", "cls"]}
    check(base, folder_of(base, tmp_path / "new", pooling=new), ["mean", "cls"], tmp_path / "b")


@pytest.mark.parametrize("after", [("Normalize",), ("Dense",), ("Dense", "Normalize"), ("Normalize", "Dense")], ids=str)
def test_dense_and_normalize(base: Path, tmp_path: Path, after: tuple[str, ...]) -> None:
    check(base, folder_of(base, tmp_path / "model", *after, pooling={"pooling_mode": "cls"}), ["cls"], tmp_path)
    written = json.loads((tmp_path / "again" / "modules.json").read_text())
    assert [row["type"].rpartition(".")[2] for row in written] == ["Transformer", "Pooling", *after]


@pytest.mark.parametrize("way", ["mean", "cls", "weightedmean", "max", "lasttoken"])
@pytest.mark.parametrize("include", [True, False])
def test_prompts(base: Path, tmp_path: Path, include: bool, way: str) -> None:
    prompts = {"prompts": PROMPTS, "default_prompt_name": "query"}
    pooling = {"pooling_mode": way, "include_prompt": include}
    folder = folder_of(base, tmp_path / "model", "Normalize", pooling=pooling, prompts=prompts)
    model = qkv.load(folder, device="cpu")
    model.save(tmp_path / "again")
    tokenizer = hf.AutoTokenizer.from_pretrained(base)
    again = qkv.load(tmp_path / "again", device="cpu")
    for prompt, options in (
        (PROMPTS["query"], {}),
        (PROMPTS["long"], {"prompt_name": "long"}),
        ("", {"prompt_name": "document"}),
        ("the dog: ", {"prompt": "the dog: "}),
    ):
        skip = 0 if include or not prompt else len(tokenizer(prompt)["input_ids"]) - 1
        wanted = reference(base, folder, [way], prompt, skip)
        np.testing.assert_allclose(model.embed(TEXTS, **options), wanted, atol=2e-5)
        np.testing.assert_array_equal(again.embed(TEXTS, **options), model.embed(TEXTS, **options))
        for place in (folder, tmp_path / "again"):
            if (found := installed(place, **options)) is not None:
                np.testing.assert_allclose(found, wanted, atol=2e-5)
    with pytest.raises(UsageError, match=r"prompt_name 'nothing'.*query, document, long"):
        model.embed(TEXTS, prompt_name="nothing")
    with pytest.raises(UsageError, match="not both"):
        model.embed(TEXTS, prompt="a", prompt_name="query")


def test_another_pooling_replaces_the_folder_s(base: Path, tmp_path: Path) -> None:
    folder = folder_of(base, tmp_path / "model", "Dense", "Normalize", pooling={"pooling_mode": "cls"})
    model, plain = qkv.load(folder, device="cpu"), qkv.load(base, device="cpu")
    np.testing.assert_allclose(model.embed(TEXTS, pooling="mean"), plain.embed(TEXTS), atol=2e-5)
    np.testing.assert_array_equal(model.embed(TEXTS, pooling="first"), model.embed(TEXTS))  # the folder's own
    assert plain.embed(TEXTS, pooling="mean+max").shape == (len(TEXTS), 64)
    plain.save(tmp_path / "plain")
    assert not (tmp_path / "plain" / "modules.json").exists()


def test_texts_are_lower_cased_where_the_folder_says_so(base: Path, tmp_path: Path) -> None:
    folder = folder_of(base, tmp_path / "model", pooling={"pooling_mode": "mean"})
    dump(folder / "sentence_bert_config.json", {"max_seq_length": 60, "do_lower_case": True})
    model, plain = qkv.load(folder, device="cpu"), qkv.load(base, device="cpu")
    wanted = plain.embed([text.lower() for text in TEXTS])
    assert np.abs(plain.embed(TEXTS) - wanted).max() > 1e-2
    np.testing.assert_allclose(model.embed(TEXTS), wanted, atol=1e-6)
    model.save(tmp_path / "again")
    np.testing.assert_allclose(qkv.load(tmp_path / "again", device="cpu").embed(TEXTS), wanted, atol=1e-6)


BROKEN = {
    "an unknown module": ("modules.json", [{"idx": 0, "path": "", "type": KIND + "WordEmbeddings"}], "WordEmbeddings"),
    "a module of others": ("modules.json", [{"idx": 0, "path": "", "type": "mine.Transformer"}], "mine.Transformer"),
    "no pooling": ("modules.json", [{"idx": 0, "path": "", "type": KIND + "Transformer"}], "Transformer"),
    "no list": ("modules.json", {}, "damaged"),
    "an unknown pooling": ("1_Pooling/config.json", {"pooling_mode": "attention"}, "attention"),
    "an unknown old pooling": ("1_Pooling/config.json", {"pooling_mode_attention": True}, "pooling_mode_attention"),
    "an unknown activation": ("2_Dense/config.json", {"activation_function": "torch.nn.Softshrink"}, "Softshrink"),
    "a residual": ("2_Dense/config.json", {"use_residual": True}, "use_residual"),
    "a default without prompts": ("config_sentence_transformers.json", {"default_prompt_name": "q"}, "'q'"),
    "prompts of numbers": ("config_sentence_transformers.json", {"prompts": {"q": 3}}, "prompts"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_known_is_an_error_in_words(base: Path, tmp_path: Path, name: str) -> None:
    folder = folder_of(base, tmp_path / "model", "Dense", pooling={"pooling_mode": "cls"})
    file, raw, said = BROKEN[name]
    dump(folder / file, raw)
    with pytest.raises(QkvError, match=said) as caught:
        qkv.load(folder, device="cpu")
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_dense_layer_that_does_not_fit(base: Path, tmp_path: Path) -> None:
    folder = folder_of(base, tmp_path / "model", "Dense", pooling={"pooling_mode": ["cls", "mean"]})
    dump(folder / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    with pytest.raises(QkvError, match="expects vectors of size 64, but gets size 32"):
        qkv.load(folder, device="cpu")
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(QkvError, match="never unpickles"):
        qkv.load(folder, device="cpu")
