"""Runs MONAI's side of an app and Hearth in turn, on fresh phantoms, and prints a table.

    python docs/benches/in_turn.py brats lung pathology --hearth target/release/hearth --rounds 3 --keep figures.jsonl

The interpreter that runs this runs the peers too (--python another one). Each round has a phantom and a seed of its own; who begins
alternates. Both train by the demo's recipe, then predict the cases that validate, each in a process whose time and peak of resident
memory are measured from outside. The table has the medians of all rounds; a ratio is the peer's figure divided by Hearth's, above 1
Hearth needs less. Of values that only one side has there is no ratio.

Of Hearth, the seconds of an epoch are those of log.jsonl (without validation), those of the caches lie between the lines of its output
that begin and end them (for MONAI the same without opening the data set), and the target counts from there. It is reached when the
line of an epoch whose metrics in log.jsonl have it is printed.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
# The mean of the recipe, and Dice of each region.
DICE = 'metric={ key = "mean_dice", mean_dice = { name = "DiceMetric" }, dice = { name = "DiceMetric", reduction = "mean_batch" } }'
APPS = {
    "brats": {"recipe": "demo-brats", "size": [], "target": ("WT", "dice_label_1"), "least": 0.8, "set": ["--set", DICE]},
    "lung": {"recipe": "demo-lung", "size": [], "target": ("GTV-1", "mean_dice"), "least": 0.8, "set": []},
    "pathology": {"recipe": "demo-pathology", "size": ["--size", "2048"], "target": ("metric", "accuracy"), "least": 0.95, "set": []},
}


def run(command, log):
    """Runs a command: when each line of its output came, the seconds of all of it, its peak of resident memory in MiB."""
    lines, start = [], time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def read(stream, name):
        for line in stream:
            lines.append((time.perf_counter() - start, name, line.rstrip("\n")))

    readers = [threading.Thread(target=read, args=part) for part in ((process.stdout, "out"), (process.stderr, "err"))]
    [reader.start() for reader in readers]
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    [reader.join() for reader in readers]
    lines.sort()
    with log.open("a") as file:
        file.writelines(f"{at:9.3f} {name} {line}\n" for at, name, line in lines)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {process.returncode}; see {log}\n" + "\n".join(line for *_, line in lines[-10:]))
    return lines, seconds, usage.ru_maxrss / 1024


def said(lines):
    return json.loads([line for _, name, line in lines if name == "out" and line.startswith("{")][-1])


def peer(args, app, folder, seed, data):
    script, log = [args.python, HERE / f"{app}_peer.py", data, "--threads", args.threads], folder / "peer.log"
    epochs = ["--epochs", args.epochs] if args.epochs else []
    to = ["--weights", folder / "peer.pt", "--out", folder / "peer"]
    lines, seconds, peak = run([*script, "--seed", seed, "--target", args.target or APPS[app]["least"], "--only", "train", *epochs, *to], log)
    found = said(lines)
    figures = {
        "epoch, seconds": found["epoch_seconds"],
        "filling the caches, seconds": found.get("cache_seconds"),
        "to the target, seconds": found["target_seconds"],
        "to the target, epochs": found["target_epoch"],
        "training, whole command, seconds": seconds,
        "training, peak of memory, MiB": peak,
        "best metric": (found["best"] or {}).get("metric"),
        "last metric": (found["final"] or {}).get("metric"),
    }
    lines, seconds, peak = run([*script, "--only", "predict", *to], log)
    found = said(lines)
    figures |= {
        "a case predicted, seconds": found["predict_case_seconds"],
        "tiles per second": found.get("predict_tiles_per_second"),
        "prediction, whole command, seconds": seconds,
        "prediction, peak of memory, MiB": peak,
    }
    return figures


def hearth(args, app, folder, seed, data):
    what, out, log = APPS[app], folder / "run", folder / "hearth.log"
    epochs = ["--epochs", args.epochs] if args.epochs else []
    source = data / "regions.csv" if app == "pathology" else data
    recipe = args.recipe or what["recipe"]
    options = ["--out", out, "--device", "cpu", "--precision", "fp32", "--seed", seed, *epochs, *what["set"]]
    lines, seconds, peak = run([args.hearth, "train", recipe, "--data", source, *options], log)
    opened = [at for at, _, line in lines if " cases train" in line]
    caches = [at for at, _, line in lines if line.startswith("cache: ")]
    begun = (caches or opened)[-1]
    printed = {int(line.split()[1].split("/")[0]): at for at, _, line in lines if line.startswith("epoch ")}
    entries = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    entries = [entry for entry in entries if entry["event"] == "epoch"]
    key, least = what["target"][1], args.target or what["least"]
    reached = [entry["epoch"] for entry in entries if (entry["metrics"].get(key) or 0.0) >= least]
    summary = json.loads((out / "summary.json").read_text())
    figures = {
        "epoch, seconds": statistics.median(entry["seconds"] for entry in entries),
        "filling the caches, seconds": caches[-1] - opened[0] if caches else None,
        "to the target, seconds": printed[reached[0]] - begun if reached else None,
        "to the target, epochs": reached[0] if reached else None,
        "training, whole command, seconds": seconds,
        "training, peak of memory, MiB": peak,
        "best metric": summary["best_metric"],
        "last metric": summary["metrics"].get(summary["key_metric"]),
    }
    images = held(app, data)
    lines, seconds, peak = run([args.hearth, "predict", out, "--device", "cpu", "-i", *images, "-o", folder / "hearth"], log)
    # The first path printed of each case marks its end; the first case begins with the program.
    ends = [at for at, name, line in lines if name == "out" and line.endswith(("_seg.nii.gz", ".npy"))]
    if len(ends) != len(images):
        raise SystemExit(f"{len(ends)} results of {len(images)} cases; see {log}")
    tiles = [int(line.split(": ")[1].split()[0]) for *_, line in lines if " tiles in " in line]
    figures |= {
        "a case predicted, seconds": statistics.median(end - before for before, end in zip(ends, ends[1:])),
        "tiles per second": sum(tiles[1:]) / (ends[-1] - ends[0]) if tiles else None,
        "prediction, whole command, seconds": seconds,
        "prediction, peak of memory, MiB": peak,
    }
    return figures


def held(app, data):
    """The images of the cases that validate."""
    if app == "brats":
        return [data / case["image"] for case in json.loads((data / "dataset.json").read_text())["training"][-4:]]
    if app == "lung":
        return sorted(path for path in data.iterdir() if path.is_dir())[-4:]
    with (data / "regions.csv").open(newline="") as file:
        return [data / name for name in sorted({row["image"] for row in csv.DictReader(file) if row["split"] == "validation"})]


def froc(args, folder, side, data):
    command = [args.hearth, "metrics", "froc", "--maps", folder / side, "--truth", data, "--scale", 32, "--spacing", 1, "--box-size", 16]
    lines, *_ = run([*command, "-o", folder / f"froc-{side}"], folder / "froc.log")
    return float([line for _, _, line in lines if line.startswith("FROC score")][-1].split()[-1])


def measure(args, app, number):
    seed = args.seed + number
    with tempfile.TemporaryDirectory(dir=args.work) as scratch:
        folder = Path(scratch)
        data = folder / "data"
        run([args.hearth, "data", "phantom", app, "--cases", 24, *APPS[app]["size"], "--seed", seed, "--out", data], folder / "data.log")
        if app == "pathology":
            run([args.python, HERE / "pathology_peer.py", data, "--only", "draw"], folder / "data.log")
        sides = {"peer": peer, "hearth": hearth}
        found = {}
        for side in ["peer", "hearth"] if number % 2 == 0 else ["hearth", "peer"]:
            found[side] = sides[side](args, app, folder, seed, data)
            if app == "pathology":
                found[side]["FROC"] = froc(args, folder, side, data)
            line = json.dumps({"app": app, "round": number, "seed": seed, "side": side, **found[side]})
            print(line, file=sys.stderr, flush=True)
            if args.keep:
                with args.keep.open("a") as file:
                    file.write(line + "\n")
    return found


# Of these more is better, or there is no better.
NO_RATIO = {"best metric", "last metric", "FROC", "to the target, epochs"}


def table(args, rounds):
    print("| app | what | peer | Hearth | ratio |\n|---|---|---|---|---|")
    for app, found in rounds.items():
        whats = list(found[0]["peer"])
        for what in whats:
            sides = [[each[side].get(what) for each in found] for side in ("peer", "hearth")]
            if all(value is None for side in sides for value in side):
                continue
            # A round that did not get there has no figure: neither has the median.
            peers, ours = (None if None in side else statistics.median(side) for side in sides)
            label = what
            if what.startswith("to the target"):
                label = f"{what} ({APPS[app]['target'][0].replace('metric', 'accuracy')} {args.target or APPS[app]['least']})"
            ratio = "" if what in NO_RATIO or peers is None or ours is None else peers / ours
            if ratio and what == "tiles per second":
                ratio = 1 / ratio
            print(f"| {app} | {label} | {shown(peers)} | {shown(ours)} | {shown(ratio)} |")


def shown(value):
    if value is None:
        return "not reached"
    return value if isinstance(value, str) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("apps", nargs="+", choices=list(APPS))
    parser.add_argument("--hearth", type=Path, default=Path("target/release/hearth"))
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the peers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="in place of the recipe's; the schedule stays")
    parser.add_argument("--target", type=float)
    parser.add_argument("--threads", type=int, default=2, help="cores that both may use")
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("--recipe", help="a file in place of the bundled recipe")
    parser.add_argument("--work", type=Path, help="where phantoms and runs go while they are needed")
    parser.add_argument("--keep", type=Path, help="a line of JSON for each side of each round is added to this file")
    args = parser.parse_args()
    args.hearth = args.hearth.resolve()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    rounds = {app: [measure(args, app, number) for number in range(args.rounds)] for app in args.apps}
    table(args, rounds)


main()
