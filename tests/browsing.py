"""Pages in a real chromium, for the tests of the dashboard, the reports and the documentation."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
_SEVERE = ("serious", "critical")


_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first takes a third of the time of the others to open a page in a new context."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the machine's own chromium, which `make setup` installs, and stop it at the end."""
    executable = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    assert executable is not None, "These tests need chromium; `make setup` installs it as root."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        try:
            yield browser
        finally:
            browser.close()


def severe_violations(page: Page) -> list[str]:
    """What axe-core calls serious or critical on a page, one sentence each."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{rule['id']}: {rule['help']}: {node['target']}"
        for rule in found
        if rule["impact"] in _SEVERE
        for node in rule["nodes"]
    ]


def overflow(page: Page) -> int:
    """By how many pixels a page is wider than its window."""
    return int(
        page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    )
