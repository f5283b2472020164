r"""How people and models write answers, put into the LaTeX that math-verify reads; the same for both sides.

Nothing is compared here. What is ambiguous is decided as tests/unit/rewards/answer_pairs.py says, with hundreds of
examples.
"""

# ruff: noqa: RUF001 - the signs that look like others are what this is about
from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial

Steps = list[tuple[re.Pattern[str], str | Callable[[re.Match], str]]]

# Boxes ---------------------------------------------------------------------------------------------------------------

BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*")
PERCENT_BEHIND = re.compile(r"\s*(?:\$+|\\[)\]])?\s*\\?%")


def last_box(text: str) -> str | None:
    r"""What the last \boxed{...} of a response holds; "" where it has no end, None where there is no box.

    An empty box is none: it quotes what was asked for. A percent sign right behind a box is part of it.
    """
    for box in reversed(list(BOX.finditer(text))):
        if text[box.end() : box.end() + 1] == "{":
            end = _closing(text, box.end())
            if end is None:
                return ""
            content = text[box.end() + 1 : end]
        else:  # \boxed 42
            token = re.compile(r"[^\s$]*").match(text, box.end())[0]
            end, content = box.end() + len(token) - 1, token.rstrip(".,;:!")
        if content.strip():
            return content + (r"\%" if PERCENT_BEHIND.match(text, end + 1) else "")
    return None


def _closing(text: str, opening: int) -> int | None:
    """Where the brace that is opened there is closed; escaped ones are part of the text."""
    depth = 0
    for brace in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, opening):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.start()
    return None


# Numbers -------------------------------------------------------------------------------------------------------------

THIN = r"(?:[\u00a0\u2007-\u200a\u202f\u205f]|\\[,;:! ]|\{\\,\}|~)"  # spaces that are narrow or do not break
THIN_GROUPS = re.compile(rf"(?<![\d.^_])[1-9]\d{{0,2}}(?:{THIN}\d{{3}})+(?!\d)")
OTHER_GROUPS = re.compile(r"(?<![\w.^])[1-9]\d{0,2}(?:(?: \d{3})+|(?:'\d{3})+|(?:_\d{3})+)(?!\w)")
COMMA_GROUPS = re.compile(r"(?<![\d.^_])[1-9]\d{0,2}(?:,\d{3})+(?!,?\d)")
BRACKET = re.compile(r"\\?[{}]|[()\[\],]")
SPACE = re.compile(r"\s|\\[ ,;:]|\\q?quad")
SCIENTIFIC = re.compile(r"(?<![\w.\\])(\d+(?:\.\d*)?|\.\d+)[eE]([+-]?\d+)(?!\w|\.\d)")
TIMES_POWER = re.compile(
    r"(?<![\w.^/*\\}])(\d+(?:\.\d+)?)\s*(?:×|·|⋅|\*|x|\\times|\\cdot)\s*10\s*(?:\^|\*\*)\s*[({]?([+-]?\d+)[)}]?(?!\w)"
)
EULER = re.compile(r"(?<![\w.\\])(?!1e)\d+e[+-](?!0)\d+(?!\w|\.\d)")  # 2e-3, and not 1e-3, 2e-03 or 2.5e3
REPEATING = re.compile(r"(?<!\d)(\d{1,99})\.(\d{0,99})\\(?:overline|bar|dot)\s*(?:\{(\d{1,99})\}|(\d))")
LONGEST_EXPONENT = 1000  # a larger one stays, instead of that many digits


def _digits(number: re.Match) -> str:
    """A number in scientific notation, with all its digits."""
    mantissa, exponent = number.groups()
    if len(exponent) > 5 or abs(int(exponent)) > LONGEST_EXPONENT:
        return rf"{mantissa}\times 10^{{{exponent.lstrip('+')}}}"
    return format(Decimal(f"{mantissa}e{exponent}"), "f")


def _fraction(number: re.Match) -> str:
    """A repeating decimal as a fraction."""
    whole, first, period = number[1], number[2], number[3] or number[4]
    value = Fraction(int(whole + first + period) - int(whole + first), 10 ** len(first) * (10 ** len(period) - 1))
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _joined(groups: re.Match) -> str:
    return re.sub(r"\D", "", groups[0])


def _without_commas(text: str) -> str:
    """Without the commas that separate thousands.

    These stand between groups of three digits, and every other comma beside them has a space behind it. In brackets,
    which list things, there has to be such a comma, or a group that begins with 0, as no number does: (1,000) is a
    thousand, (1,234) a pair.
    """
    levels, listing = _levels(text)
    numbers = list(COMMA_GROUPS.finditer(text))
    inside = {place for number in numbers for place in range(*number.span())}
    for number in reversed(numbers):  # from the end, so that what is before stays where it is
        level = levels[text.index(",", number.start())]
        others = [spaced for place, (at, spaced) in levels.items() if at == level[0] and place not in inside]
        if all(others) and (level[0] not in listing or others or ",0" in number[0]):
            text = text[: number.start()] + _joined(number) + text[number.end() :]
    return text


def _levels(text: str) -> tuple[dict[int, tuple[int, bool]], set[int]]:
    """For the place of each comma the number of the brackets around it and whether there is a space; which list."""
    levels, listing, open_ones, count = {}, set(), [0], 0
    for sign in BRACKET.finditer(text):
        if sign[0] == ",":
            levels[sign.start()] = open_ones[-1], bool(SPACE.match(text, sign.end()))
        elif sign[0] in ("{", r"\{", "(", "["):
            count += 1
            open_ones.append(count)
            listing |= set() if sign[0] == "{" else {count}
        elif len(open_ones) > 1:
            open_ones.pop()
    return levels, listing


# Signs ---------------------------------------------------------------------------------------------------------------

INVISIBLE = dict.fromkeys([0x00AD, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF])
SIGNS = str.maketrans({"\u066b": ".", "\u066c": ",", "\u2212": "-", "\ufe63": "-", "\u2010": "-", "\u2011": "-"})
VULGAR = re.compile("[\u00bc-\u00be\u2150-\u215e]")
RAISED = re.compile("[\u00b2\u00b3\u00b9\u2070\u2074-\u207b\u207f]+")
IN_MATHEMATICS = {
    **{"×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "÷": "/", "∕": "/", "⁄": "/", "–": "-"},
    **{"≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\ne ", "<=": r"\le ", ">=": r"\ge "},
    **{"∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ", r"\varnothing": r"\emptyset ", "∈": r"\in ", "!=": r"\ne "},
    **{"∞": r"\infty ", "±": r"\pm ", "≈": r"\approx ", "°": r"^\circ ", "º": r"^\circ ", "π": r"\pi "},
}


def _latin(text: str, exponent: str) -> str:
    """Digits, signs and letters of other scripts and faces as the plain ones, and raised ones in `exponent`."""
    if text.isascii():
        return text
    compatible = partial(unicodedata.normalize, "NFKC")
    text = re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit[0])), text.translate(INVISIBLE))
    text = re.sub(rf"(?<=\d){THIN}(?=\d{{3}})", lambda _: r"\,", text)
    text = VULGAR.sub(lambda sign: re.sub(r"(\d+)\D(\d+)", r"\\frac{\1}{\2}", compatible(sign[0])), text)
    text = RAISED.sub(lambda signs: exponent % compatible(signs[0]), text)
    return compatible(text).translate(SIGNS)


# Answers that stand alone --------------------------------------------------------------------------------------------

FACE = r"\\(?:text(?:bf|it|rm|tt|sf|sc|normal)?|math(?:rm|bf|it|sf|tt)|mbox|emph|bm|boldsymbol)\s*"
CODE = re.compile(r"```[^\S\n]*[A-Za-z]*\n|`+")
EMPHASIS = re.compile(r"(?<![\w)}\]*])(\*{1,3}|_{1,3})(?=\S)([^*_\n]*?[^*_\s\\])\1(?![\w*(])")
UNIT = re.compile(
    r"(.*\d\}*)\s+(?:([A-Za-z]{4,})(?:\s+[A-Za-z]+)*"
    r"|USD|EUR|GBP|(?:[kcm]?m|mi|ft|k?g|L)/(?:s|h|hr|min|L)(?:\^\{?\d\}?)?)"  # math-verify knows those without a slash
)
NO_UNITS = {"percent", "percentage", "infinity", "sqrt", "times", "plus", "minus", "over", "choose"}
NO_UNITS |= {"hundred", "thousand", "million", "billion", "trillion", "dozen"}
NO_UNITS |= {"alpha", "beta", "gamma", "delta", "theta", "omega", "lambda", "sigma"}
WORDS = re.compile(r"(?=.*[A-Za-z]{3}|[A-Za-z]{2}$)[A-Za-z]+(?:\s+[A-Za-z]+)*")
NO_WORDS = {"and", "or", "in", "inf", "infty", "infinity", "sqrt", "pi", "sin", "cos", "tan", "cot", "sec", "csc"}
NO_WORDS |= {"arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln", "exp", "mod"}
SHORT_WORD = 4  # letters that may be a product of variables as well

AROUND: Steps = [  # what is around mathematics
    (CODE, " "),
    (re.compile(r"(?:US)?\\?\$"), " "),
    (re.compile(r"^\s*\\[(\[]|\\[)\]]\s*$"), ""),
    (re.compile(r"\s+"), " "),
]
INSIDE: Steps = [
    (re.compile("|".join(map(re.escape, IN_MATHEMATICS))), lambda sign: IN_MATHEMATICS[sign[0]]),
    (re.compile(r"√\s*(?:[({]([^(){}]*)[)}]|(\d+(?:\.\d+)?|[A-Za-z]))"), lambda of: rf"\sqrt{{{of[1] or of[2]}}}"),
    (re.compile(r"\\(?:text)?color\s*\{[^{}]*\}"), ""),
    (re.compile(r"(?<=\\\\)\[[^\]]*\]"), ""),  # the height of a matrix's row
    (re.compile(r"^\s*\\text\s*\{[^{}]*:\s*\}"), ""),  # a label
    (re.compile(r"(?:\s|\\[,;: ]){0,9}(?:\\text\s*\{\s*percent\s*\}|\bpercent\b|\\?%)"), r"\\%"),
    (re.compile(FACE + r"\{\s*(" + FACE + r"\{[^{}]*\})\s*\}"), r"\1"),
    (re.compile(r"\\(?:text(?:tt|sf|sc)|emph)\s*(?=\{)"), r"\\text"),
    (re.compile(FACE + r"\{(\s*[-+]?\.?\d[^{}]*)\}"), r" \1 "),
    (re.compile(r"\{\s*,\s*\}|,\\!"), ","),
    (THIN_GROUPS, _joined),
    (OTHER_GROUPS, _joined),
    (re.compile(r".+", re.DOTALL), lambda text: _without_commas(text[0])),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\^\s*([+-]?\d+(?:\.\d+)?)"), r"^{\1}"),
    (re.compile(r"(?<![\\A-Za-z])pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(r"(?<![\w.}/])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.])"), r"\1\\frac{\2}{\3}"),
    (REPEATING, _fraction),
    (re.compile(r"^\s*(?:\\approx|~)\s*|\s+$"), ""),
    (re.compile(r"(?<![.\s\\])[.,;](\}*)$"), r"\1"),
]


def readings(answer: str) -> list[str]:
    """An answer that stands alone, from a box or a reference, as LaTeX; more than one where it is ambiguous.

    2e-3 is 0.002, and 2e - 3 with Euler's number. A word of up to four letters may be a product.
    """
    text = _without_emphasis(_apply(AROUND, answer).strip())
    text = "".join(" " if unicodedata.category(sign) == "Sc" else sign for sign in text)
    text = _apply(INSIDE, _latin(text, "^{%s}")).strip()
    unit = UNIT.fullmatch(text)
    if unit and (unit[2] or "").lower() not in NO_UNITS:
        text = unit[1]
    if WORDS.fullmatch(text) and not NO_WORDS & set(text.lower().split()):
        return [text, rf"\text{{{text}}}"] if len(text) <= SHORT_WORD else [rf"\text{{{text}}}"]
    if text.endswith(r"\%") and not re.search(r"[=,%]", text[:-2]) and not re.fullmatch(r"[-+.\d\s]*", text[:-2]):
        text = rf"\frac{{{text[:-2]}}}{{100}}"  # math-verify knows percentages of numbers only
    if text.count(r"\pm") == 1 and "," not in text:  # and a sign for two values in sums only
        text = text.replace(r"\pm", "+") + ", " + text.replace(r"\pm", "-")
    number = SCIENTIFIC.sub(_digits, text)
    return [number, text] if EULER.search(text) else [number]


def _apply(steps: Steps, text: str) -> str:
    for pattern, replacement in steps:
        text = pattern.sub(replacement, text)
    return text


def _without_emphasis(text: str) -> str:
    while (bare := EMPHASIS.sub(r"\2", text)) != text:
        text = bare
    return text


# Responses without a box ---------------------------------------------------------------------------------------------

FORMULA = re.compile(r"(?<!\\)(\$\$?|\\\(|\\\[)(\s*)(?!\s)([^$]{1,999}?)(\s*)(\$\$?|\\\)|\\\])")
MARKS: Steps = [
    (CODE, " "),
    (re.compile(r"\"|\\(?=\$)|</?[A-Za-z]+>"), " "),
    (re.compile(r"^[ \t]*[-*+\u2022][ \t]+", re.MULTILINE), ""),  # of a list, and no minus
    (re.compile(r"(?<=\s)[('](-?\d[\d.,]*)[)'](?=[.,;!]?(?:\s|$))"), r" \1"),
    # Where there are no spaces between words, math-verify would not see that a number begins.
    (re.compile(r"(?<!\d)[\u2010-\U0003ffff](?=[-$*`\d])"), lambda sign: sign[0] + " " * _ends(sign[0])),
    (re.compile(r"(?<![\w)}])\u2013(?=[\d.])"), "-"),
]
NUMBERS: Steps = [
    (FORMULA, lambda formula: formula[1] + formula[2] + readings(formula[3])[0] + formula[4] + formula[5]),
    (THIN_GROUPS, _joined),
    (TIMES_POWER, _digits),
    (SCIENTIFIC, _digits),
]


def plain(response: str) -> str:
    """A response without a box, its numbers and formulas written so that math-verify finds and reads them."""
    return _apply(NUMBERS, _without_emphasis(_latin(_apply(MARKS, response), "^(%s)")))


def _ends(sign: str) -> bool:
    """Whether it is a letter, a punctuation mark or an arrow, so that what is behind it stands for itself."""
    return unicodedata.category(sign) in ("Lo", "Po", "Ps", "Pe", "Pi", "Pf") or sign in "≈→⇒"
