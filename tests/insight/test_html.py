"""The page as text: what is typed stays text, and only the page's own script may run."""

import base64
import hashlib
import json
import re
import zlib

import numpy as np
import pytest
import torch

from qkv.insight.html import page
from tests.predict.conftest import make_translator
from tests.predict.readers import make_reader

HOSTILE = "</script><script>window.hacked=1</script> {{data}} {{script}} \x1b[31m \u202ecat <img src=x onerror=a()>"


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def block(html, name, kind):
    text = re.search(rf'<script type="text/plain" id="{name}">(.*?)</script>', html)[1]
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=kind)


def test_typed_text_is_never_markup():
    found = make_reader("mlm", "classify", kind="byte-bpe", labels=("<b>bad", "good"), max_length=400).look(
        HOSTILE, HOSTILE
    )
    html = found.html()
    assert "window.hacked=1</script>" not in html
    assert "<img" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.count("<script") == html.count("</script>") == 3 + html.count('type="text/plain"') - 1
    shown = data_of(html)
    assert shown["lens"]["choices"][0][-1][0][0] in ("<b>bad", "good")
    assert html.count("{{data}}") == 3  # as it was typed, in the title and twice in the page


def test_only_the_own_script_may_run_and_nothing_is_loaded():
    html = make_reader("mlm").look("the cat").html()
    (script,) = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in html
    assert not re.search(r"https?://|src=|href=|@import|url\(", html)


def test_a_page_holds_the_weights_of_every_layer_and_head():
    found = make_translator("transformer-tiny").look("The cat sleeps.", "Le chat dort.")
    html = found.html()
    parts = {one["name"]: one for one in data_of(html)["parts"]}
    assert list(parts) == ["cross", "encoder", "decoder"]
    for name, part in found.parts.items():
        assert parts[name]["stored"] == [0, 1]
        for layer in range(2):
            stored = block(html, f"{name}-weights-{layer}", np.uint8).reshape(2, len(part.rows), len(part.columns))
            whole = torch.from_numpy((stored / 255.0) ** 2).float()
            torch.testing.assert_close(whole, part.weights(layer), atol=0.004, rtol=0)


@pytest.mark.parametrize(("cells", "stored"), [(10**6, [0, 1]), (60, [1]), (40, [])])
def test_a_page_has_a_limit_and_keeps_thumbnails(cells, stored):
    found = make_reader("mlm").look("the cat sat")
    assert len(found.part().rows) == 5  # 50 weights a layer
    html = page(found, cells)
    assert data_of(html)["parts"][0]["stored"] == stored
    assert [f'id="encoder-weights-{layer}"' in html for layer in (0, 1)] == [layer in stored for layer in (0, 1)]
    assert 'id="encoder-thumbs"' in html
