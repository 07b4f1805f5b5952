"""Colours for code, line by line, while it is still arriving: what a line is depends on itself and one number.

The number says which comment or string is open at the line's end; so only lines that changed are looked at again.
A handful of word lists instead of grammars: enough to see comments, strings, numbers and the words of a language.
Knows no Qt but colours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtGui import QColor

from desktop.theme import Colors, readable

LONGEST = 4_000  # characters of a line that are looked at

# Kinds: what a piece of a line is.
COMMENT, STRING, NUMBER, KEYWORD, CONSTANT, NAME = range(6)
_INKS = (
    ("#6a737d", "#9aa2ab"),
    ("#0f6b3c", "#93d5a4"),
    ("#9a4d00", "#edb46e"),
    ("#7a34a8", "#cda2f5"),
    ("#9a4d00", "#edb46e"),
    ("#1f5f93", "#7cc0f2"),
)


@dataclass(frozen=True, slots=True)
class Language:
    """What the lines of a language are made of. `spans` are comments and strings that may go over several lines."""

    keywords: frozenset[str]
    constants: frozenset[str] = frozenset()
    line_comment: tuple[str, ...] = ()
    spans: tuple[tuple[str, str, int], ...] = ()  # from, to, kind
    quotes: str = "\"'"
    names_after: frozenset[str] = frozenset()
    any_case: bool = False
    keys: bool = False  # a word before a colon or an equals sign at the start of a line is a name
    tags: bool = False  # words after < are keywords


def _language(words: str, constants: str = "", comment: str = "#", **more: object) -> Language:
    return Language(
        frozenset(words.split()), frozenset(constants.split()), tuple(comment.split()), **more  # type: ignore[arg-type]
    )  # fmt: skip


_C_COMMENT = ("/*", "*/", COMMENT)
_C = (
    "auto break case const continue default do else enum extern for goto if inline register return sizeof static "
    "struct switch typedef union void volatile while int char short long float double signed unsigned bool"
)
_CPP = (
    f"{_C} class namespace template typename public private protected virtual override final new delete using try "
    "catch throw operator friend constexpr noexcept explicit concept requires co_await co_return co_yield"
)
_JAVA = (
    "abstract assert boolean break byte case catch char class const continue default do double else enum extends final "
    "finally float for goto if implements import instanceof int interface long native new package private protected "
    "public return short static strictfp super switch synchronized this throw throws transient try void volatile while "
    "var record sealed permits yield"
)
_JS = (
    "async await break case catch class const continue debugger default delete do else export extends finally for from "
    "function get if import in instanceof let new of return set static super switch this throw try typeof var void "
    "while with yield"
)
_TS = (
    f"{_JS} abstract any as boolean declare enum implements infer interface is keyof namespace never number private "
    "protected public readonly satisfies string type unknown"
)
_PYTHON = (
    "and as assert async await break case class continue def del elif else except finally for from global if import in "
    "is lambda match nonlocal not or pass raise return try while with yield"
)
_TRIPLE = (('"""', '"""', STRING), ("'''", "'''", STRING))
_NAMED = frozenset(
    ("def", "class", "function", "func", "fn", "struct", "enum", "interface", "trait", "type", "fun", "module")
)

_LANGUAGES: dict[str, Language] = {
    "python": _language(_PYTHON, "True False None self cls", spans=_TRIPLE, names_after=_NAMED),
    "javascript": _language(
        _JS, "true false null undefined NaN Infinity", "//", spans=(_C_COMMENT, ("`", "`", STRING)), names_after=_NAMED
    ),
    "typescript": _language(
        _TS, "true false null undefined NaN", "//", spans=(_C_COMMENT, ("`", "`", STRING)), names_after=_NAMED
    ),
    "c": _language(_C, "true false NULL nullptr", "//", spans=(_C_COMMENT,), names_after=frozenset({"struct", "enum"})),
    "cpp": _language(_CPP, "true false nullptr this NULL", "//", spans=(_C_COMMENT,), names_after=_NAMED),
    "java": _language(_JAVA, "true false null", "//", spans=(_C_COMMENT, _TRIPLE[0]), names_after=_NAMED),
    "csharp": _language(
        f"{_JAVA} as async await base bool checked decimal delegate event explicit foreach get in internal is lock "
        "namespace object operator out override params partial readonly ref sbyte sealed set sizeof stackalloc string "
        "struct typeof uint ulong unsafe using virtual where",
        "true false null", "//", spans=(_C_COMMENT,), names_after=_NAMED,
    ),
    "kotlin": _language(
        "as break by class companion const constructor continue data do else enum for fun if import in init inline "
        "interface internal is lateinit object open operator out override package private protected public return "
        "sealed super suspend this throw try typealias val var vararg when where while",
        "true false null", "//", spans=(_C_COMMENT, _TRIPLE[0]), names_after=_NAMED,
    ),
    "swift": _language(
        "as associatedtype async await break case catch class continue defer deinit do else enum extension fallthrough "
        "fileprivate final for func get guard if import in init inout internal is lazy let mutating open operator "
        "override private protocol public repeat rethrows return set some static struct subscript super switch throw "
        "throws try typealias var weak where while",
        "true false nil self Self", "//", spans=(_C_COMMENT, _TRIPLE[0]), quotes='"', names_after=_NAMED,
    ),
    "go": _language(
        "break case chan const continue default defer else fallthrough for func go goto if import interface map "
        "package range return select struct switch type var",
        "true false nil iota", "//", spans=(_C_COMMENT, ("`", "`", STRING)), names_after=_NAMED,
    ),
    "rust": _language(
        "as async await break const continue crate dyn else enum extern fn for if impl in let loop macro match mod "
        "move mut pub ref return static struct super trait type unsafe use where while",
        "true false self Self None Some Ok Err", "//", spans=(_C_COMMENT,), quotes='"', names_after=_NAMED,
    ),
    "ruby": _language(
        "alias and begin break case class def defined? do else elsif end ensure for if in module next not or redo "
        "rescue retry return super then undef unless until when while yield require",
        "true false nil self", spans=(("=begin", "=end", COMMENT),), names_after=_NAMED,
    ),
    "php": _language(
        "abstract and array as break case catch class clone const continue declare default do echo else elseif enum "
        "extends final finally fn for foreach function global if implements include interface match namespace new or "
        "print private protected public readonly require return static switch throw trait try use var while yield",
        "true false null this", "// #", spans=(_C_COMMENT,), names_after=_NAMED,
    ),
    "bash": _language(
        "case do done elif else esac export fi for function if in local return select then until while set unset "
        "source echo cd exit trap shift declare readonly",
        "true false",
    ),
    "sql": _language(
        "add all alter and any as asc begin between by case cast check column commit constraint create cross database "
        "default delete desc distinct drop else end exists explain foreign from full group having if in index inner "
        "insert intersect into is join key left like limit not offset on or order outer over partition primary "
        "references returning right rollback select set table then transaction trigger truncate union unique update "
        "using values view when where with integer int text real varchar char date timestamp boolean",
        "null true false", "--", spans=(_C_COMMENT,), any_case=True,
    ),
    "html": _language("", "", "", spans=(("<!--", "-->", COMMENT),), tags=True),
    "css": _language("important media import keyframes supports", "", "", spans=(_C_COMMENT,), keys=True),
    "json": _language("", "true false null", "", quotes='"', keys=True),
    "yaml": _language("", "true false null yes no", keys=True),
    "toml": _language("", "true false", "# ;", spans=_TRIPLE, keys=True),
    "lua": _language(
        "and break do else elseif end for function goto if in local not or repeat return then until while",
        "true false nil self", "--", spans=(("--[[", "]]", COMMENT), ("[[", "]]", STRING)), names_after=_NAMED,
    ),
    "r": _language("break else for function if in next repeat return while library", "TRUE FALSE NULL NA Inf NaN"),
    "julia": _language(
        "abstract baremodule begin break catch const continue do else elseif end export finally for function global if "
        "import in let local macro module mutable primitive quote return struct try using while",
        "true false nothing missing", spans=(("#=", "=#", COMMENT), _TRIPLE[0]), quotes='"', names_after=_NAMED,
    ),
    "haskell": _language(
        "case class data default deriving do else forall foreign if import in infix infixl infixr instance let module "
        "newtype of then type where",
        "True False Nothing Just", "--", spans=(("{-", "-}", COMMENT),), quotes='"', names_after=_NAMED,
    ),
    "docker": _language(
        "FROM RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD STOPSIGNAL HEALTHCHECK "
        "SHELL AS"
    ),
    "make": _language("ifeq ifneq ifdef ifndef else endif include define endef export override", "", keys=True),
}  # fmt: skip
_ALIASES = {
    "py": "python", "python3": "python", "py3": "python", "pycon": "python", "js": "javascript", "jsx": "javascript",
    "mjs": "javascript", "node": "javascript", "ts": "typescript", "tsx": "typescript", "h": "c", "objc": "c",
    "objective-c": "c", "c++": "cpp", "cc": "cpp", "hpp": "cpp", "cxx": "cpp", "metal": "cpp", "cuda": "cpp",
    "cs": "csharp", "c#": "csharp", "scala": "kotlin", "dart": "java", "groovy": "java", "kt": "kotlin", "rs": "rust",
    "golang": "go", "rb": "ruby", "sh": "bash", "shell": "bash", "zsh": "bash", "console": "bash", "fish": "bash",
    "postgresql": "sql", "sqlite": "sql", "mysql": "sql", "xml": "html", "svg": "html", "vue": "html", "scss": "css",
    "less": "css", "jsonc": "json", "json5": "json", "jsonl": "json", "yml": "yaml", "ini": "toml", "cfg": "toml",
    "jl": "julia", "hs": "haskell", "dockerfile": "docker", "makefile": "make", "mk": "make",
}  # fmt: skip


def language_of(name: str) -> Language | None:
    """The language that a fence names, None for one that is not known."""
    name = name.strip().lower().lstrip("{.").rstrip("}")
    return _LANGUAGES.get(_ALIASES.get(name, name))


@lru_cache(maxsize=64)
def _pattern(language: Language) -> re.Pattern[str]:
    parts = []
    if language.spans:
        opens = sorted((span[0] for span in language.spans), key=len, reverse=True)
        parts.append(f"(?P<span>{'|'.join(map(re.escape, opens))})")
    if language.line_comment:
        parts.append(f"(?P<comment>(?:{'|'.join(map(re.escape, language.line_comment))}).*)")
    strings = [rf"{q}(?:\\.|[^{q}\\])*(?:{q}|$)" for q in language.quotes]
    parts.append(f"(?P<string>{'|'.join(strings)})")
    if language.tags:
        parts.append(r"(?P<tag></?[\w:!-]+|/?>)")
    parts.append(r"(?P<number>\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z]{0,3}\b)")
    parts.append(r"(?P<word>[^\W\d][\w?]*)")
    return re.compile("|".join(parts))


_KEY = re.compile(
    r"\s{0,200}(?:-\s{1,20})?(\"[^\"]{0,200}\"|[\w.@-][\w .@-]{0,60}?)\s{0,20}(?::|=(?!=))(?=\s|$|[\[{\"\d\w])"
)


def scan(line: str, state: int, language: Language) -> tuple[list[tuple[int, int, int]], int]:
    """What is what in a line: (start, length, kind), and the state for the next line.

    `state` is 0 at the start of a block, else what the line before returned: the span that is open, from 1 on.
    """
    found: list[tuple[int, int, int]] = []
    at = 0
    line = line[:LONGEST]
    if 0 < state <= len(language.spans):
        end, kind = language.spans[state - 1][1:]
        close = line.find(end)
        if close < 0:
            return [(0, len(line), kind)] if line else [], state
        at = close + len(end)
        found.append((0, at, kind))
    if language.keys and not at and (key := _KEY.match(line)):
        found.append((key.start(1), key.end(1) - key.start(1), NAME))
        at = key.end(1)
    pattern, before = _pattern(language), ""
    while (match := pattern.search(line, at)) is not None:
        what, start, at = match.lastgroup, match.start(), match.end()
        if what == "span":
            number = next(k for k, span in enumerate(language.spans) if span[0] == match[0])
            end, kind = language.spans[number][1:]
            close = line.find(end, at)
            if close < 0:
                found.append((start, len(line) - start, kind))
                return found, number + 1
            at = close + len(end)
            found.append((start, at - start, kind))
        elif what == "word":
            word = match[0].lower() if language.any_case else match[0]
            if word in language.keywords:
                found.append((start, at - start, KEYWORD))
            elif word in language.constants:
                found.append((start, at - start, CONSTANT))
            elif before in language.names_after or (language.tags and line[at : at + 1] == "="):
                found.append((start, at - start, NAME))
            before = word
        else:
            kind = {"comment": COMMENT, "string": STRING, "number": NUMBER, "tag": KEYWORD}[what or ""]
            found.append((start, at - start, kind))
        if at == start:
            at += 1
    return found, 0


@lru_cache(maxsize=16)
def inks(dark: bool, panel_rgb: int) -> tuple[QColor, ...]:
    """The colour of each kind on a code panel; each reads on it."""
    panel = QColor(panel_rgb)
    return tuple(readable(QColor(pair[dark]), panel) for pair in _INKS)


def ink_of(kind: int, colors: Colors) -> QColor:
    """The colour of a kind in a scheme."""
    return inks(colors.dark, colors.panel.rgb())[kind]
