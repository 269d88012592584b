"""Follows every local link of a built site, anchors included."""
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def check(site):
    """Errors: exits with the links that lead nowhere."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    broken, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            anchor = unquote(url.fragment)
            known = not anchor or target not in pages or anchor in pages[target].ids
            if not target.exists() or not known:
                broken.append(f"{path.relative_to(site)}: {link}")
    if broken or not count:
        sys.exit("broken links:\n" + "\n".join(broken) if broken else f"{site} has no links")
    print(f"{len(pages)} pages, {count} links lead somewhere")
