"""What several GPUs gain, on paper: the time of a training step from that of one GPU, the bytes of gradients and published speeds of
links. It measures nothing.

    python3 docs/benches/scaling.py --summary runs/first/summary.json          # a run of one rank or of several
    python3 docs/benches/scaling.py --parameters 4702227 --step-seconds 0.5 --cases 388
    python3 docs/benches/scaling.py --check docs/scaling.md                     # whether the page's tables are current
    python3 docs/benches/scaling.py --write docs/scaling.md                     # makes them so
    python3 docs/benches/scaling.py --picture docs/guide/scaling.svg            # an epoch's speed-up over GPUs

A step of n GPUs takes the time of one GPU for its own batch, and what of the all-reduce is not hidden behind the backward pass. The
all-reduce of a bucket of b bytes takes 2 (n-1)/n b/bandwidth + 2 (n-1) latency, as a ring does.
"""
import argparse
import json
import math
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
BUCKET_BYTES = 25 * MIB  # engine/distributed/src/bucket.rs
# Assumed, see docs/scaling.md.
REACHED = 0.8
BACKWARD = 2 / 3
LATENCY_INSIDE, LATENCY_BETWEEN = 5e-6, 10e-6
PER_NODE = 8
COUNTS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Link:
    """A link, with its published speed in bytes a second, in one direction."""

    name: str
    speed: float


NVLINK4 = Link("NVLink 4", 450e9)
# 16 lanes, 128 bits in 130.
PCIE5 = Link("PCIe 5", 16 * 32e9 / 8 * 128 / 130)
PCIE4 = Link("PCIe 4", 16 * 16e9 / 8 * 128 / 130)
INFINIBAND = {gigabits: Link(f"{gigabits} Gb/s", gigabits * 1e9 / 8) for gigabits in (100, 200, 400)}


@dataclass(frozen=True)
class Cluster:
    """Nodes of eight GPUs: the link inside a node, and that between nodes."""

    inside: Link
    between: Link
    # The link to the host, where gradients travel through its memory.
    host: Link | None = None

    @property
    def name(self):
        return f"{self.inside.name}, {self.between.name}" + (f", through hosts by {self.host.name}" if self.host else "")


@dataclass(frozen=True)
class Work:
    """A step of one GPU."""

    name: str
    parameters: int
    step_seconds: float
    cases: int
    batch: int = 1
    bucket_bytes: int = BUCKET_BYTES
    wire_bytes: int = 4
    # As a run counted them.
    measured_buckets: int | None = None

    def buckets(self):
        """Bytes of each bucket: where a run has counted them, equal ones, and otherwise full ones and the rest."""
        total, full = self.parameters * 4, self.bucket_bytes
        if self.measured_buckets:
            return [total / self.measured_buckets * self.wire_bytes / 4] * self.measured_buckets
        sizes = [full] * (total // full) + ([total % full] if total % full else [])
        return [size * self.wire_bytes / 4 for size in sizes]

    def steps(self, count):
        """Steps of an epoch: each rank has as many cases as any other, some of them twice."""
        return math.ceil(math.ceil(self.cases / count) / self.batch)


def reduce_seconds(size, count, cluster):
    """An all-reduce of so many bytes. A ring of all GPUs is as fast as its slowest link, and enters each node once."""
    if count == 1:
        return 0.0
    one_node = count <= PER_NODE
    links = [cluster.inside] if one_node else [cluster.inside, cluster.between]
    speed = REACHED * min(link.speed for link in links)
    seconds = 2 * (count - 1) / count * size / speed + 2 * (count - 1) * (LATENCY_INSIDE if one_node else LATENCY_BETWEEN)
    if cluster.host:
        # To the host, and back.
        seconds += 2 * size / (REACHED * cluster.host.speed)
    return seconds


def exposed_seconds(work, count, cluster, overlap):
    """What a step waits for. With overlap a bucket travels as soon as backward has filled it, one after the other."""
    sizes = work.buckets()
    each = [reduce_seconds(size, count, cluster) for size in sizes]
    if not overlap:
        return sum(each)
    backward, total = BACKWARD * work.step_seconds, sum(sizes)
    filled, ended = 0.0, 0.0
    for size, seconds in zip(sizes, each, strict=True):
        filled += size
        ended = max(ended, backward * filled / total) + seconds
    return ended - backward if count > 1 else 0.0


def speedup(work, count, cluster, overlap):
    """Of an epoch, against one GPU."""
    step = work.step_seconds + exposed_seconds(work, count, cluster, overlap)
    return work.steps(1) * work.step_seconds / (work.steps(count) * step)


def start_and_share(fewer, more):
    """T = a + b / n through two (n, seconds): what does not shrink, and what does."""
    (n, t), (m, s) = fewer, more
    shrinks = (t - s) / (1 / n - 1 / m)
    return t - shrinks / n, shrinks


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def milliseconds(seconds):
    return f"{seconds * 1e3:.2f}"


CLUSTERS = (
    *(Cluster(NVLINK4, INFINIBAND[gigabits]) for gigabits in (100, 200, 400)),
    Cluster(PCIE5, INFINIBAND[400]),
    Cluster(PCIE4, INFINIBAND[100]),
    Cluster(PCIE4, INFINIBAND[100], host=PCIE4),
)


def waits_table(work, clusters=CLUSTERS):
    """Milliseconds of a step that are spent waiting, without and with overlap."""
    rows = []
    for cluster in clusters:
        cells = []
        for count in COUNTS[1:]:
            plain, hidden = (exposed_seconds(work, count, cluster, overlap) for overlap in (False, True))
            cells.append(f"{milliseconds(plain)} / {milliseconds(hidden)}")
        rows.append([cluster.name, *cells])
    return table(["links", *(f"{count} GPUs" for count in COUNTS[1:])], rows)


def speedups_table(work, clusters=CLUSTERS):
    rows = [["whole steps alone", *(f"{work.steps(1) / work.steps(count):.2f}" for count in COUNTS[1:])]]
    for cluster in clusters:
        pairs = [[speedup(work, count, cluster, overlap) for overlap in (False, True)] for count in COUNTS[1:]]
        rows.append([cluster.name, *(f"{plain:.2f} / {hidden:.2f}" for plain, hidden in pairs)])
    return table(["links", *(f"{count} GPUs" for count in COUNTS[1:])], rows)


# Of the guide: seconds until mean Dice 0.78 on A100, and which run.
GUIDE_ONE, GUIDE_PLAIN_8 = 31430, 4766
GUIDE = {8: 2691, 16: 1980, 32: 1114}


def guide_table(work):
    start, share = start_and_share((8, GUIDE[8]), (32, GUIDE[32]))
    fast = Cluster(NVLINK4, INFINIBAND[200])
    rows = []
    for count, seconds in GUIDE.items():
        rows.append([
            str(count),
            f"{seconds:,} s",
            f"{GUIDE_ONE / seconds:.1f}",
            f"{GUIDE[8] / seconds:.2f}",
            f"{start + share / count:,.0f} s",
            f"{speedup(work, count, fast, False):.1f}",
            f"{speedup(work, count, fast, False) / speedup(work, 8, fast, False):.2f}",
        ])
    line = f"{start:.0f} s + {share:,.0f} s / n"
    head = ["GPUs", "guide", "against 1", "against 8", line, "this model, against 1", "against 8"]
    return table(head, rows)


# Half a second a step is an assumption. The second has as many cases, so that only the network differs.
BRATS = Work("brats", 4_702_227, 0.5, 388, measured_buckets=11)
LUNG = Work("lung", 62_186_659, 0.5, 388, measured_buckets=8)


COLOURS = ("#1b6ca8", "#c8553d", "#8d99ae")


def picture():
    """Speed-up over GPUs as SVG, both axes in powers of two: the model's best and worst, and the guide's."""
    left, top, width, height = 64, 40, 480, 320
    most = math.log2(COUNTS[-1])

    def at(count, times):
        return f"{left + width * math.log2(count) / most:.1f},{top + height * (1 - math.log2(times) / most):.1f}"

    best, worst = (BRATS, Cluster(NVLINK4, INFINIBAND[400]), True), (LUNG, Cluster(PCIE4, INFINIBAND[100], host=PCIE4), False)
    curves = []
    for work, cluster, overlap in (best, worst):
        how = "with overlap" if overlap else "without overlap"
        curves.append((f"{work.name}, {cluster.name}, {how}", [(count, speedup(work, count, cluster, overlap)) for count in COUNTS]))
    curves.append(("MONAI's guide, to Dice 0.78, measured on A100", [(1, 1.0), *((n, GUIDE_ONE / s) for n, s in GUIDE.items())]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 24} {top + height + 130}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="24" font-size="15">An epoch, times faster than on one GPU (calculated)</text>',
    ]
    for count in COUNTS:
        x, y = at(count, count).split(",")
        parts.append(f'<path d="M{x},{top} V{top + height} M{left},{y} H{left + width}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x}" y="{top + height + 18}" text-anchor="middle">{count}</text>')
        parts.append(f'<text x="{left - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{count}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">GPUs</text>')
    ends = f"{at(1, 1)} {at(COUNTS[-1], COUNTS[-1])}"
    parts.append(f'<polyline points="{ends}" fill="none" stroke="#999999" stroke-dasharray="4 4"/>')
    for index, (name, points) in enumerate(curves):
        colour, y = COLOURS[index], top + height + 62 + 20 * index
        line = " ".join(at(*point) for point in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>' for x, y in (at(*point).split(",") for point in points)]
        parts.append(f'<rect x="{left}" y="{y - 10}" width="12" height="12" fill="{colour}"/><text x="{left + 20}" y="{y + 1}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def page_tables():
    return {
        "links": table(
            ["link", "one direction, published", "taken"],
            [[link.name, f"{link.speed / 1e9:.1f} GB/s", f"{REACHED * link.speed / 1e9:.1f} GB/s"]
             for link in (NVLINK4, PCIE5, PCIE4, *INFINIBAND.values())],
        ),
        "buckets": table(
            ["recipe", "parameters", "gradients, f32", "buckets"],
            [[work.name, f"{work.parameters:,}", f"{work.parameters * 4 / 1e6:.1f} MB", str(len(work.buckets()))] for work in (BRATS, LUNG)],
        ),
        "brats waits": waits_table(BRATS),
        "brats speedups": speedups_table(BRATS),
        "lung waits": waits_table(LUNG),
        "lung speedups": speedups_table(LUNG),
        "guide": guide_table(BRATS),
    }


def fill(text):
    """The page with the tables of now between their marks."""
    tables = page_tables()
    found = re.findall(r"<!-- table: ([a-z ]+) -->", text)
    if sorted(found) != sorted(tables):
        raise ValueError(f"the page has the tables {sorted(found)}, expected {sorted(tables)}")
    for name, lines in tables.items():
        pattern = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        text, count = re.subn(pattern, lambda marks, lines=lines: f"{marks[1]}{lines}\n{marks[2]}", text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"the table {name} has no end: <!-- end --> is missing")
    return text


def of_run(path):
    """Parameters, buckets, seconds of a step and cases of a run: its summary.json, and log.jsonl beside it."""
    summary = json.loads(path.read_text())
    lines = [json.loads(line) for line in (path.parent / "log.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line.get("event") == "epoch"]
    if not epochs:
        raise ValueError(f"{path.parent / 'log.jsonl'} has no epoch")
    world, steps = summary["world_size"], summary["iterations"] / summary["epochs"]
    step = statistics.median(line["seconds"] for line in epochs) / steps
    parameters, buckets = None, None
    if world > 1:
        gradients = [rank["phases"]["gradients"] for rank in summary["waits"]]
        # The loss travels with them, and counts as one.
        parameters = round(gradients[0]["bytes"] / summary["iterations"] / 4) - 1
        buckets = round(gradients[0]["operations"] / summary["iterations"])
        # The slowest rank waits least: what it waits is communication.
        step -= min(rank["seconds"] for rank in gradients) / summary["iterations"]
    return parameters, buckets, step, round(steps * world)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summary", type=Path, help="summary.json of a run, with log.jsonl beside it")
    parser.add_argument("--parameters", type=int, help="of the network; a run of one rank does not say")
    parser.add_argument("--step-seconds", type=float, help="of one GPU, without waiting for others")
    parser.add_argument("--cases", type=int, help="that train")
    parser.add_argument("--batch", type=int, default=1, help="cases of a step, on each GPU")
    parser.add_argument("--bucket-mib", type=float, help="in place of those of the run, or of 25")
    parser.add_argument("--wire", choices=("f32", "bf16"), default="f32", help="distributed.wire of the recipe")
    parser.add_argument("--check", type=Path, metavar="PAGE", help="fails where the page's tables are not those of this script")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="writes the tables into the page")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="writes the speed-up over GPUs as SVG; with --check it is compared")
    args = parser.parse_args(words)
    if args.picture:
        drawn = picture()
        if not args.check:
            args.picture.write_text(drawn)
        elif args.picture.read_text() != drawn:
            sys.exit(f"{args.picture} is not current; run: python3 docs/benches/scaling.py --picture {args.picture}")
    if page := args.check or args.write:
        text = page.read_text()
        filled = fill(text)
        if args.write:
            page.write_text(filled)
        elif filled != text:
            sys.exit(f"{page}: its tables are not current; run: python3 docs/benches/scaling.py --write {page}")
    if page or args.picture:
        return
    parameters, buckets, step, cases = of_run(args.summary) if args.summary else (None, None, None, None)
    parameters, step = args.parameters or parameters, args.step_seconds or step
    cases = args.cases or (cases and cases * args.batch)
    if not (parameters and step and cases):
        parser.error("give --summary, or --parameters, --step-seconds and --cases; a run of one rank needs --parameters")
    wire = 2 if args.wire == "bf16" else 4
    if args.bucket_mib:
        buckets = None
    size = int(args.bucket_mib * MIB) if args.bucket_mib else BUCKET_BYTES
    work = Work("this", parameters, step, cases, args.batch, size, wire, buckets)
    print(f"{parameters:,} parameters, {len(work.buckets())} buckets, {step:.3f} s a step on one GPU, {cases} cases\n")
    print("Waiting in a step, ms, without / with overlap:\n\n" + waits_table(work))
    print("\nAn epoch against one GPU, times, without / with overlap:\n\n" + speedups_table(work))


if __name__ == "__main__":
    main()
