// Tables that are wider than the page can be scrolled with the keyboard too.
document$.subscribe(() => {
  const name = () =>
    document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((box) => {
      box.setAttribute("tabindex", "0");
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table");
    });
  name(); // the theme wraps tables when it is ready, which may be before or after this
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
});
