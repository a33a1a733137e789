"""The few pieces of HTML that a report is made of. Whatever is put into them is escaped here and nowhere else."""

import base64
import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #59636e; --line: #d1d9e0; --paper: #ffffff; --band: #f6f8fa;
  --good: #0b6e4f; --warn: #fff4d6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9aa5b1; --line: #3d444d; --paper: #11151a;
  --band: #1a2027; --good: #56d3a5; --warn: #3d3012; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p { max-width: 46rem; margin: .5rem 0; }
.dim, figcaption, caption { color: var(--dim); }
.warn { background: var(--warn); border-left: 4px solid #e69f00; padding: .6rem .9rem; max-width: none; }
.wide { overflow-x: auto; margin: .8rem 0; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .5rem .7rem; }
th, td { padding: .35rem .7rem; text-align: left; vertical-align: top; white-space: nowrap; }
th { font-weight: 600; border-bottom: 2px solid var(--line); }
td { border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
tbody tr:nth-child(even) { background: var(--band); }
.number { text-align: right; }
.best { font-weight: 700; color: var(--good); }
figure { margin: 1.2rem 0; }
.picture { overflow-x: auto; }
figure img { display: block; max-width: 100%; height: auto; background: #ffffff; border: 1px solid var(--line);
  border-radius: 6px; }
figcaption { font-size: .9rem; margin-top: .4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .6rem 0; font-size: .95rem; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin: .8rem 0; } summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
pre { overflow: auto; max-height: 30rem; background: var(--band); border: 1px solid var(--line); border-radius: 6px;
  padding: .8rem; font-size: .8rem; line-height: 1.4; }
@media (max-width: 40rem) { body { padding: 1rem .8rem 3rem; font-size: 15px; } h1 { font-size: 1.5rem; }
  figure img { max-width: 40rem; } }
@media print { body { max-width: none; } .wide { overflow: visible; } details > * { display: block; } }
""".strip()


class Cell(NamedTuple):
    """A cell of a table that is more than text."""

    text: str
    kind: str = ""  # "best"


def document(title: str, sections: Iterable[str]) -> str:
    """A whole page from pieces made below."""
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>",
            *sections,
            "</main>\n</body>\n</html>\n",
        ]
    )


def heading(level: int, text: str) -> str:
    return f"<h{level}>{html.escape(text)}</h{level}>"


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{html.escape(text)}</p>"


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>\n" for name, text in pairs)
    return f"<dl>\n{rows}</dl>" if rows else ""


def table(columns: Sequence[str], rows: Iterable[Sequence], caption: str = "", numbers: Sequence[str] = ()) -> str:
    """Columns named in `numbers` are aligned to the right. A wide table scrolls by itself."""
    kinds = ["number" if column in numbers else "" for column in columns]
    head = "".join(
        f'<th scope="col"{_class(kind)}>{html.escape(c)}</th>' for c, kind in zip(columns, kinds, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(entry, kind) for entry, kind in zip(row, kinds, strict=True)) + "</tr>" for row in rows
    )
    named = f"<caption>{html.escape(caption)}</caption>\n" if caption else ""
    what = html.escape(caption or "table", quote=True)
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{what}">\n<table>\n{named}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _cell(entry, kind: str) -> str:
    cell = entry if isinstance(entry, Cell) else Cell(str(entry))
    return f"<td{_class(f'{kind} {cell.kind}'.strip())}>{html.escape(cell.text)}</td>"


def figure(svg: bytes, title: str, caption: str) -> str:
    source = base64.b64encode(svg).decode()
    return (
        f'<figure>\n<div class="picture"><img alt="{html.escape(title, quote=True)}" '
        f'src="data:image/svg+xml;base64,{source}"></div>\n<figcaption>{html.escape(caption)}</figcaption>\n</figure>'
    )


def folded(summary: str, *pieces: str) -> str:
    inside = "\n".join(pieces)
    return f"<details>\n<summary>{html.escape(summary)}</summary>\n{inside}\n</details>"


def preformatted(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
