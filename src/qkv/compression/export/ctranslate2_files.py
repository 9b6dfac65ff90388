"""Models as folders of CTranslate2, written by its own converter.

CTranslate2 runs encoders and whole searches, but no heads. So an encoder's heads are stored beside it, for PyTorch.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from qkv.checkpoints.folder import OURS, Folder, folder_files, why_ours
from qkv.checkpoints.weights import WHOLE, json_bytes, weight_bytes
from qkv.common.errors import QkvError, UsageError
from qkv.compression.export.tracing import INSTALL, first_line, quietly
from qkv.data.optional import need
from qkv.models.catalogue import build
from qkv.models.skeleton import EncoderDecoder, Headed, Transformer

PLACE = "ctranslate2/"  # CTranslate2 writes a config.json of its own
HEADS = "heads/"  # weights of heads


def ctranslate2_files(folder: Folder) -> dict[str, bytes]:
    """Return the files by name."""
    told = need("transformers.utils.logging", "exporting to CTranslate2", INSTALL)
    told.set_verbosity_error()
    told.disable_progress_bar()
    convert = need("ctranslate2.converters", "exporting to CTranslate2", INSTALL).TransformersConverter
    if not isinstance(folder.model, Transformer | EncoderDecoder) or folder.tokenizer is None:
        raise UsageError("CTranslate2 runs only Transformers over text, with a tokenizer")
    heads = {} if searches(folder.model) else _head_weights(folder.model)
    with tempfile.TemporaryDirectory(prefix="qkv-") as place:
        source, out = Path(place) / "model", Path(place) / "converted"
        source.mkdir()
        _write(source, folder if searches(folder.model) else _without_heads(folder))
        try:
            with quietly():
                convert(str(source)).convert(str(out))
        except Exception as error:  # transformers or the converter knows no such model
            raise QkvError(f"CTranslate2 cannot convert this model: {first_line(error)}") from error
        _mend(out / "config.json")
        found = {PLACE + file.name: file.read_bytes() for file in sorted(out.iterdir())}
    return found | ({HEADS + WHOLE: weight_bytes(heads)} if heads else {})


def _write(place: Path, folder: Folder) -> None:
    """Write a model folder for the converter."""
    files = folder_files(folder)
    _check_format(json.loads(files["config.json"])["model_type"], folder)
    # The converter asks every BERT for this key, which transformers 5 no longer has.
    raw = json.loads(files["config.json"]) | {"position_embedding_type": "absolute"}
    for name, data in (files | {"config.json": json_bytes(raw)}).items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(data)


def _check_format(kind: str, folder: Folder) -> None:
    """Raise an error for a model that CTranslate2 cannot convert, where its own message would not say why."""
    if kind.startswith(OURS):
        raise UsageError(f"CTranslate2 converts models of transformers only: {why_ours(folder.config)}")
    if kind == "marian":
        raise UsageError("CTranslate2 runs translators with model.set.pre_norm=true only: export this one to onnx")
    if kind in ("albert", "electra", "roformer"):
        raise UsageError(f"CTranslate2 does not know models of the kind {kind}: export this one to onnx")


def _mend(config: Path) -> None:
    """Name some token as the unknown token where there is none, since CTranslate2 cannot read null."""
    raw = json.loads(config.read_text("utf-8"))
    if raw.get("unk_token", "") is None:
        config.write_bytes(json_bytes(raw | {"unk_token": raw["eos_token"]}))


def searches(model: Headed) -> bool:
    """Whether CTranslate2 runs the whole search of a model, and not its encoder only."""
    return "lm" in model.heads


def _without_heads(folder: Folder) -> Folder:
    """Return an encoder alone, which is what CTranslate2 knows the format of."""
    config = replace(folder.config, heads=())
    model = build(config)
    model.load_state_dict(folder.model.state_dict(), strict=False)
    return replace(folder, config=config, model=model.eval())


def _head_weights(model: Headed) -> dict[str, Tensor]:
    """Return the weights of the heads, and the embeddings if a head shares them."""
    kept = ("heads.", "pooler.", *(("embeddings.token.",) if "mlm" in model.heads else ()))
    return {name: x for name, x in model.state_dict().items() if name.startswith(kept)}
