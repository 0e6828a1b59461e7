"""Links of documents to files outside of docs/ lead to the repository, where there is a site."""
import posixpath
import re

SOURCES = "https://github.com/fanfaremq/fanfare/blob/main/"


def on_page_markdown(markdown, page, **_):
    here = posixpath.join("docs", posixpath.dirname(page.file.src_path))

    def lead(m):
        target = posixpath.normpath(posixpath.join(here, m.group(2)))
        if "://" in m.group(2) or target.startswith("docs/") and target.endswith((".md", ".png", ".svg")):
            return m.group(0)
        return m.group(1) + SOURCES + target + m.group(3)

    return re.sub(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))", lead, markdown)
