"""Decides whether two texts state the same problem."""

import re
import unicodedata

# LaTeX that only positions or styles its neighbours.
LAYOUT = re.compile(
    r"\\(?:left|right|q?quad|[a-z]+style|text[a-z]*|math[a-z]*|begin|end)(?![a-z])|\\[()\[\],;:! ]|[$~&]"
)
SAME_CHARACTERS = str.maketrans({"\N{MINUS SIGN}": "-", "\N{FRACTION SLASH}": "/", "\\": " "})
BRACED = re.compile(r"\{\s*([^\W_]+)\s*\}")
OPERATOR = r"[-+*/^_=<>|!%()\[\]\xb1\xb7\xd7\xf7\u2190-\u22ff]"  # the last range: Unicode's arrows and operators
PIECE = re.compile(rf"\d+(?:\.\d+)?|[^\W\d_]+|{OPERATOR}")
AROUND_OPERATOR = re.compile(rf" ?({OPERATOR}) ?")


def normalise(text: str) -> str:
    r"""The text of a problem in the form in which it is compared: words, numbers and operators, single-spaced.

    1. Unicode NFKC and casefold; the minus sign becomes a hyphen.
    2. LaTeX that positions or styles (`$`, `\(`, `\[`, `\,`, `\!`, `\left`, `\quad`, `\text`, `\mathrm`, ...) is
       dropped, `\dfrac` and `\tfrac` become `\frac`, and every other command becomes its name.
    3. Braces around one word or number are dropped; other braces become parentheses.
    4. Words, numbers and operators (including parentheses, brackets, and Unicode's arrows and mathematical operators)
       are kept; everything else becomes a space.
    5. Spaces around operators are removed, so a formula's spacing does not matter. Most formulas are then one word of
       an n-gram, so a shared n-gram has to share prose.

    >>> normalise(r"Find $x^{2} + \dfrac{1}{2}$, where \(x = 1.5\).")
    'find x^2+frac 1 2 where x=1.5'
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = LAYOUT.sub(" ", re.sub(r"\\[dt]frac", r"\\frac", text)).translate(SAME_CHARACTERS)
    text = BRACED.sub(r" \1 ", text).replace("{", "(").replace("}", ")")
    return AROUND_OPERATOR.sub(r"\1", " ".join(PIECE.findall(text)))
