#!/usr/bin/env python3
"""site.py OUT MAN3: makes the web site OUT/site of README.md and docs/ with MkDocs,
and of the man pages with mandoc. MAN3 is the folder of libddp's pages.

The documents name each other by file, as `docs/hangs.md` or `hangs.md`, and man pages
as ddprun(1). Here these names become links. The menu comes from the tables of
docs/README.md, so that a document that they lack is an error.
"""
import glob
import html
import json
import os
import re
import shutil
import subprocess
import sys

TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What stands beside the documents in the tree: the file, and its name in the site.
OTHERS = {"README.md": "index.md", "docs/README.md": "documents.md",
          "HACKING.md": "HACKING.md", "CONTRIBUTING.md": "CONTRIBUTING.md",
          "SECURITY.md": "SECURITY.md", "CHANGELOG.md": "CHANGELOG.md"}
# The menu's groups: a title, and the first words of rows of docs/README.md's table of
# readers.
GROUPS = [("PyTorch", "run PyTorch"), ("C, C++ and CUDA", "write a program"),
          ("MPI", "run MPI"), ("Slurm", "use Slurm"),
          ("ssh", "have hosts"), ("Kubernetes", "use Kubernetes"),
          ("Clouds", "use a cloud"), ("When it fails", "look at a job"),
          ("Decide", "decide"), ("Install", "install it"), ("Run a cluster", "run a cluster"),
          ("Interfaces", "integrate"), ("Change ddprun", "change ddprun")]
# A name of a document or a man page, outside of links.
NAME = re.compile(r"(?<![\w/.-])(?:docs/|\.\./)?([\w-]+\.(?:md|txt))(?![\w/])"
                  r"|(?<![\w/-])([a-z][a-z0-9_-]*)\(([13])\)")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def sources():
    """{name in the site: path} of all documents."""
    found = {os.path.basename(p): p for kind in ("md", "txt")
             for p in glob.glob(f"{TREE}/docs/*.{kind}")}
    found.pop("README.md")
    for path, name in OTHERS.items():
        found[name] = f"{TREE}/{path}"
    return found


def man_pages(man3):
    """{"ddprun(1)": path}"""
    paths = glob.glob(f"{TREE}/docs/man/*.[13]") + glob.glob(f"{man3}/*.3")
    return {re.sub(r"\.([13])$", r"(\1)", os.path.basename(p)): p for p in paths}


class Linker:
    def __init__(self, names, pages):
        self.names, self.pages = names, pages

    def link(self, m):
        name, page, section = m.groups()
        if page:
            known = f"{page}({section})" in self.pages
            return f"[{m[0]}](man/{page}.{section}.html)" if known else m[0]
        if name == "README.md":
            name = OTHERS["docs/README.md" if m[0].startswith("docs/")
                          else "README.md"]
        if name not in self.names:
            return m[0]
        return f"[{m[0]}]({name.replace('.txt', '.txt.md')})"

    def line(self, text):
        """Links the names outside of code spans."""
        parts = re.split(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))", text)
        return "".join(p if i % 2 else NAME.sub(self.link, p)
                       for i, p in enumerate(parts))

    def page(self, text):
        out, fenced = [], False
        for line in text.split("\n"):
            if line.startswith("```"):
                fenced = not fenced
            shown = fenced or line.startswith(("    ", "\t", "```"))
            out.append(line if shown else self.line(line))
        return "\n".join(out)


def title_of(name, text):
    m = re.search(r"^# (.+)$", text, re.M)
    return m[1].replace("`", "") if m and name.endswith(".md") else name


def table_of_readers():
    """{first column: names of documents}. Each name is in one row: in that which
    starts with it, else in the first."""
    table = [[c.strip() for c in line.split("|")[1:-1]]
             for line in read(f"{TREE}/docs/README.md").split("\n")
             if line.count("|") == 4]
    rows, seen = {}, set()
    for column in (1, 2):
        for cells in table:
            names = re.findall(r"[\w-]+\.(?:md|txt)", cells[column])
            rows.setdefault(cells[0], []).extend(
                n for n in dict.fromkeys(names) if n not in seen)
            seen.update(names)
    return rows


def menu(documents):
    """The entries of MkDocs's nav; every document is in it."""
    rows, entries = table_of_readers(), [{"ddprun": "index.md"}]
    left = set(documents) - {"index.md"}

    def entry(name):
        left.discard(name)
        page = name.replace(".txt", ".txt.md")
        return {title_of(name, documents[name]): page}

    for title, words in GROUPS:
        names = [n for row, found in rows.items() if row.startswith(words)
                 for n in found if n in documents]
        assert names, f"docs/README.md: no row starts with '{words}'"
        entries.append({title: [entry(n) for n in names]})
    about = [n for n in sorted(left)
             if n.isupper() or n in OTHERS.values() or n.startswith(
                 ("performance-", "protocol-", "journal"))]
    entries.append({"More": [entry(n) for n in about]
                    + [{"Man pages": "man/index.md"}]})
    if left:
        sys.exit("site.py: docs/README.md's table of readers lacks "
                 + ", ".join(sorted(left)))
    return entries


def make_man_pages(pages, out):
    rows = []
    for page, path in sorted(pages.items()):
        name, section = page[:-1].split("(")
        style = "style=../mandoc.css,man=%N.%S.html"
        made = subprocess.run(["mandoc", "-T", "html", "-O", style, path],
                              check=True, capture_output=True, text=True).stdout
        made = re.sub(r'<a class="Xr" href="([^"]+)\.([0-9])\.html([^"]*)">(.*?)</a>',
                      lambda m: m[0] if f"{m[1]}({m[2]})" in pages else m[4], made,
                      flags=re.S)
        write(f"{out}/man/{name}.{section}.html", made)
        about = re.search(r'<div class="Nd"|<section class="Sh">.*?</section>', made,
                          re.S)
        text = re.sub(r"<[^>]+>", "", about[0]).split("NAME", 1)[-1] if about else ""
        text = " ".join(html.unescape(text).split())
        text = re.sub(r"^.*? [-\u2014\u2013] ", "", text)
        rows.append(f"| [{page}]({name}.{section}.html) | {text} |")
    write(f"{out}/man/index.md",
          "# Man pages\n\n| page | |\n|---|---|\n" + "\n".join(rows) + "\n")
    write(f"{out}/mandoc.css",
          "body { max-width: 50em; margin: 2em auto; padding: 0 1em;"
          " font-family: sans-serif; line-height: 1.45 }\n"
          "table.head, table.foot { width: 100% } dt { font-weight: bold }\n"
          ".head-rtitle, .foot-os { text-align: right }"
          " .head-vol { text-align: center }\n"
          "pre, code { font-family: monospace }\n"
          "code, dt { overflow-wrap: anywhere }\n"
          "pre, .Bl-column { display: block; overflow-x: auto }\n"
          "@media (prefers-color-scheme: dark)"
          " { body { background: #111; color: #ddd } a { color: #8bf } }\n")


# The theme keeps each cell of a table on one line, and knows no dark screens.
STYLE = """
.wy-nav-content { max-width: 900px }
.rst-content .wy-table-responsive { overflow: auto }
.rst-content table.docutils td, .rst-content table.docutils th {
  white-space: normal; vertical-align: top; min-width: 5em }
.rst-content table.docutils code { white-space: normal }
@media (prefers-color-scheme: dark) {
  body, .wy-nav-content-wrap, .wy-nav-content { background: #14171a; color: #d6d9dc }
  .rst-content a, .wy-breadcrumbs a { color: #7fb8ec }
  .rst-content code, .rst-content pre, .rst-content pre code {
    background: #20252a !important; color: #e4e6e8 !important;
    border-color: #3a4148 !important }
  .rst-content table.docutils, .rst-content table.docutils td,
  .rst-content table.docutils th {
    background: #14171a !important; color: #d6d9dc !important;
    border-color: #3a4148 !important }
  hr { border-color: #3a4148 }
  input[type=text], #mkdocs-search-query { background: #20252a; color: #e4e6e8 }
}
"""


def main():
    out, man3 = map(os.path.abspath, sys.argv[1:3])
    for tool in ("mkdocs", "mandoc"):
        if not shutil.which(tool):
            sys.exit(f"site.py: {tool} is not installed; on Debian: "
                     "sh deps.sh site")
    source = f"{out}/site-source"
    shutil.rmtree(source, ignore_errors=True)
    documents = {name: read(path) for name, path in sources().items()}
    pages = man_pages(man3)
    linker = Linker(set(documents), pages)
    for name, text in documents.items():
        if name.endswith(".txt"):
            text = f"# {name}\n\n```text\n{text}\n```\n"
            name += ".md"
        else:
            text = linker.page(text)
            text = text.replace("](docs/", "](")
        write(f"{source}/{name}", text)
    os.makedirs(f"{source}/pictures", exist_ok=True)
    for path in glob.glob(f"{TREE}/docs/pictures/*.svg"):
        shutil.copy(path, f"{source}/pictures")
    make_man_pages(pages, source)
    write(f"{source}/style.css", STYLE)
    shutil.copy(f"{TREE}/LICENSE", f"{source}/LICENSE")
    config = {"site_name": "ddprun", "docs_dir": source,
              "site_dir": f"{out}/site", "use_directory_urls": False,
              "theme": {"name": "readthedocs", "highlightjs": False,
                        "navigation_depth": 2},
              "extra_css": ["style.css"], "plugins": ["search"], "markdown_extensions": ["tables"],
              "nav": menu(documents)}
    # JSON is YAML
    write(f"{out}/mkdocs.yml", json.dumps(config, indent=1))
    subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--clean", "-f",
                    f"{out}/mkdocs.yml"], check=True)
    print(f"site: {out}/site/index.html")


main()
