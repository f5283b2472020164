"""When two texts state the same problem."""

import re
import unicodedata

# LaTeX that only places or styles what it stands beside.
LAYOUT = re.compile(
    r"\\(?:left|right|q?quad|[a-z]+style|text[a-z]*|math[a-z]*|begin|end)(?![a-z])|\\[()\[\],;:! ]|[$~&]"
)
SAME = str.maketrans({"\N{MINUS SIGN}": "-", "\N{FRACTION SLASH}": "/", "\\": " "})
BRACED = re.compile(r"\{\s*([^\W_]+)\s*\}")
OPERATOR = r"[-+*/^_=<>|!%()\[\]\xb1\xb7\xd7\xf7\u2190-\u22ff]"  # the last: Unicode's arrows and operators
PIECE = re.compile(rf"\d+(?:\.\d+)?|[^\W\d_]+|{OPERATOR}")
AROUND_OPERATOR = re.compile(rf" ?({OPERATOR}) ?")


def normalise(text: str) -> str:
    r"""A problem's text as it is compared: words of letters, numbers and operators with single spaces between them.

    1. Unicode NFKC and lower case (casefold); the minus sign is a hyphen.
    2. LaTeX that places or styles (`$`, `\(`, `\[`, `\,`, `\!`, `\left`, `\quad`, `\text`, `\mathrm`, ...) is dropped,
       `\dfrac` and `\tfrac` are `\frac`, and every other command is its name.
    3. Braces around one word or number are dropped, other braces are parentheses.
    4. Words, numbers and operators (with parentheses, brackets and the Unicode arrows and mathematical operators) are
       kept, all else is a space.
    5. There are no spaces around operators: a formula is the same however it is spaced, and mostly one word of an
       n-gram, which thereby has to share prose.

    >>> normalise(r"Find $x^{2} + \dfrac{1}{2}$, where \(x = 1.5\).")
    'find x^2+frac 1 2 where x=1.5'
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = LAYOUT.sub(" ", re.sub(r"\\[dt]frac", r"\\frac", text)).translate(SAME)
    text = BRACED.sub(r" \1 ", text).replace("{", "(").replace("}", ")")
    return AROUND_OPERATOR.sub(r"\1", " ".join(PIECE.findall(text)))
