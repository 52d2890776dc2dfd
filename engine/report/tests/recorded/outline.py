# Its version, and the outline of a page as its parsers read it: the file's name is the argument.
import html.parser
import sys
import xml.etree.ElementTree

VOID = {"meta", "br", "img", "input", "link"}
SHOWN = {"title", "h1", "h2", "h3", "th", "caption", "summary"}


class Outline(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.counts, self.lines, self.open = {}, [], []

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag in VOID:
            return
        line = [tag, ""] if tag in SHOWN else None
        if line:
            self.lines.append(line)
        self.open.append((tag, line))

    def handle_endtag(self, tag):
        opened, _ = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data):
        for _, line in self.open:
            if line:
                line[1] += data


page = open(sys.argv[1], encoding="utf-8").read()
outline = Outline()
outline.feed(page)
outline.close()
assert not outline.open, outline.open
for part in page.split("<svg")[1:]:
    xml.etree.ElementTree.fromstring("<svg" + part.split("</svg>")[0] + "</svg>")
print("python", sys.version.split()[0])
for tag in sorted(outline.counts):
    print(tag, outline.counts[tag])
for tag, text in outline.lines:
    print(f"{tag}: {' '.join(text.split())}")
