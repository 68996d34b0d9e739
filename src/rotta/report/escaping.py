"""Names in tables: nothing in them is taken for Markdown or LaTeX."""

_MARKDOWN_SPECIAL = str.maketrans({c: f"\\{c}" for c in r"\`*_[]|<>"})
_LATEX_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
    | {"α": r"$\alpha$", "δ": r"$\delta$", "λ": r"$\lambda$", "ν": r"$\nu$"}
)


def markdown_text(words: str) -> str:
    r"""Words on one line that Markdown shows as they are.

    Example:
        >>> print(markdown_text("motion_blur | fog"))
        motion\_blur \| fog
    """
    return " ".join(words.split()).translate(_MARKDOWN_SPECIAL)


def latex_text(words: str) -> str:
    r"""Words on one line that LaTeX sets as they are.

    Example:
        >>> print(latex_text("motion_blur, δ = 5 %"))
        motion\_blur, $\delta$ = 5 \%
    """
    return " ".join(words.split()).translate(_LATEX_SPECIAL)
