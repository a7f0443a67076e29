"""Which vector registers every contender uses: a ratio without them says little."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

import numba
import numpy as np
from numba.core import codegen
from threadpoolctl import threadpool_info

# What keeps numba, OpenBLAS, PyTorch and MKL to registers of 256 bits.
_AVX2 = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+64bit,+cmov,+cx8,+cx16,+fxsr,+mmx,+sse,+sse2,+sse3,+ssse3,"
    "+sse4.1,+sse4.2,+popcnt,+sahf,+xsave,+xsaveopt,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,"
    "+lzcnt,+movbe,+aes,+pclmul,+rdrnd,+fsgsbase,+invpcid",
    "OPENBLAS_CORETYPE": "Haswell",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


def restart_with_avx2(module: str) -> None:
    """Run ``python -m module`` again, all libraries kept to AVX2; once.

    The libraries read their settings when they are loaded.
    """
    if all(os.environ.get(name) == value for name, value in _AVX2.items()):
        return
    os.environ.update(_AVX2)
    os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])


def vectors() -> dict[str, Any]:
    """Registers of compiled loops, target of numba, kernels of PyTorch and the BLAS."""
    found: dict[str, Any] = {
        "registers of compiled loops": _widest_register(),
        "numba": numba.config.CPU_NAME or codegen.ll.get_host_cpu_name(),
        "blas": sorted({str(i.get("architecture")) for i in _blas()}),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = torch.backends.cpu.get_cpu_capability()
    return found


def _blas() -> list[dict[str, Any]]:
    return [info for info in threadpool_info() if info["user_api"] == "blas"]


def _widest_register() -> str:
    """Of a loop that numba compiles for this processor, as its assembly names it."""

    @numba.njit(fastmath={"contract"})
    def add(x: Any, y: Any) -> None:
        for i in range(x.size):
            y[i] += 2.0 * x[i]

    add(np.ones(8), np.ones(8))
    assembly = next(iter(add.inspect_asm().values()))
    used = set(re.findall(r"%([xyz])mm", assembly))
    names = (("z", "512 bits"), ("y", "256 bits"), ("x", "128 bits"))
    return next((name for letter, name in names if letter in used), "scalar")
