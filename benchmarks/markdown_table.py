"""Tables in Markdown."""


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Headings, a rule and the rows."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
