"""What MkDocs and the theme do not do by themselves.

Patterns in the navigation become pages, so that a new page needs no entry by hand; roles of Sphinx
in docstrings become plain code; short names and pairs of figures do not break across lines; the
search box gets a name that screen readers can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ROLE = re.compile(r":(?:class|func|meth|mod|attr):<code>[~.]?")
_SHORT_CODE = re.compile(r"(?<!<pre>)<code>(?=[^<]{1,14}</code>)")
_PAIR_IN_CELL = re.compile(r"(<td[^>]*>[\d,.]+) / (?=[\d,.]+</td>)")
_SEARCH = '<div class="md-search" data-md-component="search" role="dialog"'


def on_config(config: Any) -> Any:
    """Replace each pattern of the navigation by the pages that it matches."""
    named = {page for page in _pages(config.nav) if "*" not in page}
    config.nav = _expand(config.nav, Path(config.docs_dir), named)
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Drop roles such as ``:meth:`` from docstrings, and keep what belongs together on one line."""
    html = _SHORT_CODE.sub('<code class="short">', _ROLE.sub("<code>", html))
    return _PAIR_IN_CELL.sub("\\1\u00a0/ ", html)


def on_post_page(output: str, **_: Any) -> str:
    """Name the search box of a finished page."""
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')


def _pages(nav: Any) -> Iterator[str]:
    """Yield the pages and patterns of a navigation."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for members in nav.values():
            yield from _pages(members)
    else:
        for member in nav:
            yield from _pages(member)


def _expand(nav: list[Any], folder: Path, named: set[str]) -> list[Any]:
    """Return a navigation without patterns; sections that match no page are left out."""
    found: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and "*" in entry:
            pages = sorted(path.relative_to(folder).as_posix() for path in folder.glob(entry))
            found += [page for page in pages if page not in named]
        elif isinstance(entry, dict):
            (title, members), *_ = entry.items()
            if isinstance(members, list):
                members = _expand(members, folder, named)
            if members:
                found.append({title: members})
        else:
            found.append(entry)
    return found
