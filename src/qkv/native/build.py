"""Compile the CPU engine, once for each kind of processor: `python -m qkv.native.build`.

hatch_build.py runs this when the package is built. It needs g++ 11 or newer on 64-bit Linux; without them nothing is
compiled, and qkv runs on PyTorch alone. This file imports nothing from qkv, because qkv is not installed yet.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ["encoder.cpp", "decoder.cpp"]
HEADERS = ["tiles.h", "parts.h", "vocabulary.h"]
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC", "-fopenmp"]
# The best first. Each lists its compiler flags, and the flags of /proc/cpuinfo that a processor must have.
VARIANTS = {
    "avx512": ("-march=x86-64-v4 -mavx512vnni", "avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni"),
    "avx2vnni": ("-march=x86-64-v3 -mavxvnni", "avx2 fma bmi1 bmi2 f16c movbe avx_vnni"),
    "avx2": ("-march=x86-64-v3", "avx2 fma bmi1 bmi2 f16c movbe"),
}


def file_of(variant: str) -> Path:
    """Return where the library of a variant is, or will be."""
    return HERE / f"engine-{variant}.so"


def compile_all() -> list[Path]:
    """Compile every variant; returns the libraries, none where they cannot be compiled."""
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if not compiler or platform.system() != "Linux" or platform.machine() != "x86_64":
        return []
    return [made for variant in VARIANTS if (made := _compile(compiler, variant))]


def _compile(compiler: str, variant: str) -> Path | None:
    """Compile one variant, unless the library is newer than the sources."""
    target, sources = file_of(variant), [HERE / name for name in SOURCES]
    newest = max(file.stat().st_mtime for file in (*sources, *(HERE / name for name in HEADERS), Path(__file__)))
    if target.is_file() and target.stat().st_mtime > newest:
        return target
    work = target.with_suffix(f".{os.getpid()}.part")
    command = [compiler, *FLAGS, *VARIANTS[variant][0].split(), *map(str, sources), "-o", str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        work.unlink(missing_ok=True)
        print(f"qkv: the CPU engine ({variant}) was not compiled:\n{done.stderr[-2000:]}", file=sys.stderr)  # noqa: T201
        return None
    work.replace(target)
    return target


if __name__ == "__main__":
    raise SystemExit(0 if compile_all() else "nothing was compiled: this needs g++ 11 or newer on 64-bit Linux")
