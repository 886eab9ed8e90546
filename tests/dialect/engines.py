"""The real implementations that read our grammars, and where they come from.

llama.cpp's own parser of GBNF stands in the library of `xllamacpp`; llguidance is a dependency.
XGrammar wants torch, which its native library does not: that alone is installed, with a validator of JSON
schemas and RE2, into a folder of the cache, and loaded without the package around it.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from llguidance import LLMatcher, LLTokenizer, grammar_from

LOCK: Final = Path(__file__).with_name("engines.lock")
END: Final = 256  # behind the bytes: the token that ends a text

Reach = tuple[int, bool]  # how many bytes can be written, and whether a grammar may end behind the last


class MissingEnginesError(Exception):
    """The engines cannot be had here."""


# --- where they are ------------------------------------------------------------------------------


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    return Path(base) / "stepguard" / "engines" / digest


@cache
def installed() -> Path:
    """Install the engines where they are not yet. Raises MissingEnginesError."""
    folder = _folder()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", made]
            done = subprocess.run([*pip, *options, "-r", LOCK], capture_output=True, text=True, check=False)
            if done.returncode:
                raise MissingEnginesError(f"pip cannot install {LOCK.name}: {done.stderr.strip()[-300:]}")
            _keep(Path(made), folder)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return folder


def _keep(made: Path, folder: Path) -> None:
    """Give a folder that is whole its name, unless another process was quicker."""
    whole = Path(tempfile.mkdtemp(dir=folder.parent))
    shutil.copytree(made, whole, dirs_exist_ok=True)
    try:
        whole.rename(folder)
    except OSError:
        shutil.rmtree(whole)


def require_engines() -> None:
    """Get all engines. Raises MissingEnginesError where one cannot be had."""
    installed()
    _llama()


def validator() -> Any:
    """The module `jsonschema_rs`."""
    installed()
    return importlib.import_module("jsonschema_rs")


def re2() -> Any:
    """The module `re2`: expressions matched in linear time."""
    installed()
    return importlib.import_module("re2")


# --- XGrammar ------------------------------------------------------------------------------------


@cache
def _xgrammar() -> Any:
    package = ModuleType("xgrammar")
    package.__path__ = [str(installed() / "xgrammar")]
    sys.modules["xgrammar"] = package
    importlib.import_module("xgrammar.load_binding")
    return importlib.import_module("xgrammar.tvm_ffi_binding")


@cache
def _compiler() -> Any:
    core = _xgrammar()
    vocabulary = [bytes([byte]) for byte in range(END)] + [b"<eos>"]
    info = core.TokenizerInfo(vocabulary, 0, len(vocabulary), [END], False)
    return core.GrammarCompiler(info, 1, False, -1, False)


class XGrammar:
    """A grammar as XGrammar reads it."""

    def __init__(self, compiled: Any) -> None:
        self._matcher = _xgrammar().GrammarMatcher(compiled, None, False, -1, None)

    @classmethod
    def ebnf(cls, text: str) -> XGrammar:
        return cls(_compiler().compile_grammar_from_strings(text, "root"))

    @classmethod
    def lark(cls, text: str) -> XGrammar:
        return cls(_compiler().compile_lark(text, [], []))

    @classmethod
    def regex(cls, text: str) -> XGrammar:
        return cls(_compiler().compile_regex(text))

    @classmethod
    def schema(cls, text: str) -> XGrammar:
        # Members on one line with single blanks, as `json.dumps` writes them.
        return cls(_compiler().compile_json_schema(text, False, None, None, True, None, False))

    def reach(self, text: str) -> Reach:
        """How far a text gets, from the beginning on."""
        self._matcher.reset()
        for index, byte in enumerate(text.encode()):
            if not self.take(byte):
                return index, False
        return len(text.encode()), bool(self._matcher.is_completed())

    def take(self, byte: int) -> bool:
        """Write one more byte, where it may be written."""
        return bool(self._matcher.accept_token(byte, False))

    def allowed(self) -> list[int]:
        """The bytes that may come now, by trying each."""
        return [byte for byte in range(END) if self.take(byte) and not self._matcher.rollback(1)]

    @property
    def may_end(self) -> bool:
        return bool(self._matcher.is_completed())


# --- llguidance ----------------------------------------------------------------------------------


@cache
def _bytes() -> LLTokenizer:
    return LLTokenizer("byte")


class LLGuidance:
    """A grammar as llguidance reads it."""

    def __init__(self, definition: str) -> None:
        problem = LLMatcher.validate_grammar(definition, _bytes())
        assert problem == "", f"{problem}\n{definition}"
        self._matcher = LLMatcher(_bytes(), definition)

    @classmethod
    def lark(cls, text: str) -> LLGuidance:
        return cls(text)

    @classmethod
    def gbnf(cls, text: str) -> LLGuidance:
        return cls(grammar_from("gbnf", text))

    @classmethod
    def regex(cls, text: str) -> LLGuidance:
        return cls(LLMatcher.grammar_from_regex(text))

    @classmethod
    def schema(cls, text: str) -> LLGuidance:
        written: Any = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
        return cls(LLMatcher.grammar_from_json_schema(text, overrides=written))

    def reach(self, text: str) -> Reach:
        """How far a text gets, from the beginning on."""
        self._matcher.reset()
        written = text.encode()
        count = self._matcher.try_consume_tokens(list(written))
        return count, count == len(written) and bool(self._matcher.is_accepting())

    def allowed(self) -> list[int]:
        """The bytes that may come now, END among them where nothing need come."""
        if self._matcher.is_stopped():
            return [END]
        mask = self._matcher.compute_bitmask()
        return [token for token in range(END + 1) if mask[token // 8] >> token % 8 & 1]

    def take(self, byte: int) -> bool:
        """Write one more byte, where it may be written."""
        return self._matcher.try_consume_tokens([byte]) == 1

    @property
    def may_end(self) -> bool:
        return bool(self._matcher.is_accepting())


# --- llama.cpp -----------------------------------------------------------------------------------


class _Llama:
    """The functions by which llama.cpp's own tests try grammars."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("xllamacpp.xllamacpp")
        if found is None or found.origin is None:
            raise MissingEnginesError("xllamacpp is not installed")
        library = ctypes.CDLL(found.origin)
        try:
            self.begin = library._Z23llama_grammar_init_implPK11llama_vocabPKcS3_bPS3_mPKim
            self.take = library._Z20llama_grammar_acceptP13llama_grammarj
            self.stacks = library._Z24llama_grammar_get_stacksP13llama_grammar
            self.free = library._Z23llama_grammar_free_implP13llama_grammar
        except AttributeError:
            raise MissingEnginesError("this build of xllamacpp does not show llama.cpp's grammars") from None
        pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
        self.begin.argtypes = [pointer, text, text, ctypes.c_bool, pointer, size, pointer, size]
        self.begin.restype = self.stacks.restype = pointer
        self.take.argtypes, self.take.restype = [pointer, ctypes.c_uint32], None
        self.stacks.argtypes = self.free.argtypes = [pointer]
        self.free.restype = None


@cache
def _llama() -> _Llama:
    return _Llama()


class Llama:
    """A grammar as llama.cpp reads it, character by character."""

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self._grammar = self._begin()
        assert self._grammar, f"llama.cpp refuses:\n{text}"

    def _begin(self) -> int | None:
        found: int | None = _llama().begin(None, self._text, b"root", False, None, 0, None, 0)
        return found

    def __del__(self) -> None:
        if self._grammar:
            _llama().free(self._grammar)

    def reach(self, text: str) -> Reach:
        """How far a text gets, from the beginning on."""
        _llama().free(self._grammar)
        self._grammar = self._begin()
        count = 0
        for char in text:
            _llama().take(self._grammar, ord(char))
            if not self._stacks():
                return count, False
            count += len(char.encode())
        return count, self.may_end

    @property
    def may_end(self) -> bool:
        return any(begin == end for begin, end in self._stacks())

    def _stacks(self) -> list[tuple[int, int]]:
        """Where what may come next begins and ends in memory: a vector of vectors."""
        begin, end, _ = _three(_llama().stacks(self._grammar))
        return [(first, behind) for first, behind, _ in map(_three, range(begin, end, 24))]


def _three(address: int) -> tuple[int, int, int]:
    first, second, third = (ctypes.c_size_t * 3).from_address(address)
    return first, second, third
