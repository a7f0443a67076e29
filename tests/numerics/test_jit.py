"""What compiling here does to others who compile."""

import threading

import numba
import pytest
from numba.core import config
from numba.core.ccallback import CFunc

from skgpx._numerics import _jit

needs_jit = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


@needs_jit
@pytest.mark.parametrize("names", [{}, {"__name__": None}, {"__name__": "skgpx"}])
def test_functions_without_a_module_are_compiled_as_before(names):
    exec("def g(x): return x + 1", names)
    assert numba.njit(names["g"])(1.0) == 2.0


def formula(a, b, c, flag, value, slope):
    value[0] = a[0]


@needs_jit
def test_the_folder_of_others_is_theirs_while_a_formula_is_compiled(monkeypatch):
    seen = []
    compiled = CFunc.compile

    def spy(self):
        seen.append((config.CACHE_DIR, _jit._LOCK.locked()))
        compiled(self)

    monkeypatch.setattr(CFunc, "compile", spy)
    before = config.CACHE_DIR
    made = _jit.Formula(formula).address
    assert seen == [(before, False)]
    assert isinstance(made.address, int)
    # and what was compiled is kept where everything of this project is
    if _jit._CACHE is not None:
        assert made._cache.cache_path.startswith(_jit._CACHE)
    assert before == config.CACHE_DIR


def test_an_error_gives_the_folder_back():
    before = config.CACHE_DIR
    with pytest.raises(ZeroDivisionError):
        _jit._in_our_folder(lambda: 1 // 0)
    assert before == config.CACHE_DIR
    free = threading.Thread(target=_jit._in_our_folder, args=(list,))
    free.start()
    free.join(5.0)
    assert not free.is_alive()
