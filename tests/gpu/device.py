"""Where the tests of this folder run: QKV_TEST_DEVICE=cpu tries those out that need no CUDA kernel."""

from __future__ import annotations

import os

DEVICE = os.environ.get("QKV_TEST_DEVICE", "cuda")
ON_CUDA = DEVICE == "cuda"
