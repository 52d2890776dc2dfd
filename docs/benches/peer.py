"""What the peers of the apps share: options, clock, memory, and the training, validation and prediction of regions of volumes.

It is no program: brats_peer.py, lung_peer.py and pathology_peer.py are.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import monai
import torch
from monai.data import CacheDataset, MetaTensor, ThreadDataLoader, decollate_batch, set_track_meta
from monai.inferers import SlidingWindowInferer
from monai.metrics import DiceMetric
from monai.transforms import Activations, Activationsd, AsDiscrete, AsDiscreted, Compose, EnsureTyped, Invertd, SaveImaged
from monai.utils import set_determinism


def arguments(description, epochs, interval, target=0.8, steps=()):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="what `hearth data phantom` wrote")
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--interval", type=int, default=interval, help="epochs between validations")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", type=float, default=target, help="the metric whose time is told")
    parser.add_argument("--weights", type=Path, help="where the best weights go, and where --only predict takes them from")
    parser.add_argument("--out", type=Path, help="where predictions go; by default nowhere that stays")
    parser.add_argument("--only", choices=["train", "predict", *steps], help="by default both, the second in a process of its own")
    args = parser.parse_args()
    if args.only == "predict" and args.weights is None:
        parser.error("--only predict needs --weights")
    torch.set_num_threads(args.threads)
    set_determinism(args.seed)
    return args


def run(app, args, train, predict):
    """Trains, then predicts in a fresh process, so that each has a peak of memory of its own. A line of JSON tells both."""
    with tempfile.TemporaryDirectory() as scratch:
        args.weights = args.weights or Path(scratch) / "weights.pt"
        args.out = args.out or Path(scratch) / "out"
        said = {"peer": "monai", "app": app, "monai": monai.__version__, "torch": torch.__version__, "threads": torch.get_num_threads()}
        if args.only != "predict":
            said |= {"seed": args.seed, "epochs": args.epochs} | train(args) | memory("")
        if args.only == "predict":
            said |= predict(args) | memory("predict_")
        if args.only is None:
            start = time.perf_counter()
            again = [sys.executable, *sys.argv, "--only", "predict", "--weights", str(args.weights), "--out", str(args.out)]
            answer = subprocess.run(again, check=True, stdout=subprocess.PIPE, text=True).stdout
            said |= {key: value for key, value in json.loads(answer).items() if key.startswith("predict_")}
            said["predict_command_seconds"] = time.perf_counter() - start
        print(json.dumps(said), flush=True)


def memory(prefix):
    """The peak of resident memory in MiB: the kernel's high-water mark. That of getrusage begins with the peak of the process that
    started this one."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {f"{prefix}peak_mib": int(status["VmHWM"].split()[0]) / 1024}


class Progress:
    """Times of epochs and validations, the best metric and its weights, and when the target was reached. The clock starts here, after
    the caches are filled, and counts validations."""

    def __init__(self, args, net, target):
        self.args, self.net, self.key = args, net, target
        self.epochs, self.validations, self.reached = [], [], None
        self.best, self.start = {}, time.perf_counter()

    def epoch(self, number, step, validate):
        start = time.perf_counter()
        loss = step()
        self.epochs.append(time.perf_counter() - start)
        line = {"epoch": number, "loss": loss, "seconds": self.epochs[-1]}
        if number % self.args.interval == 0:
            start = time.perf_counter()
            self.last = validate()
            now = time.perf_counter()
            self.validations.append(now - start)
            line |= self.last
            if self.last["metric"] > self.best.get("metric", -1.0):
                self.best = {**self.last, "epoch": number}
                torch.save(self.net.state_dict(), self.args.weights)
            if self.reached is None and self.last[self.key] >= self.args.target:
                self.reached = {"target_seconds": now - self.start, "target_epoch": number}
        print(json.dumps(line), file=sys.stderr, flush=True)

    def figures(self):
        if not self.best:
            torch.save(self.net.state_dict(), self.args.weights)
        return {
            "epoch_seconds": statistics.median(self.epochs),
            "validation_seconds": statistics.median(self.validations or [0.0]),
            "training_seconds": time.perf_counter() - self.start,
            "final": getattr(self, "last", None),
            "best": self.best or None,
            "target": {self.key: self.args.target},
            **(self.reached or {"target_seconds": None, "target_epoch": None}),
        }


def train_regions(args, cases, validation, fixed, random, net, loss, optimizer, schedule, names, target, fill, roi=(32, 32, 32)):
    """Trains a network whose channels are regions, as MONAI's guide to fast training does: what is deterministic is cached without
    metadata, and a thread prepares the batches. `fixed` transforms validation too, `fill` is cached of training cases alone."""
    plain = EnsureTyped(["image", "label"], track_meta=False)
    start = time.perf_counter()
    cached = CacheDataset(cases, Compose([*fixed, *fill, plain, *random]), num_workers=2, copy_cache=False, progress=False)
    held = CacheDataset(validation, Compose([*fixed, plain]), num_workers=2, copy_cache=False, progress=False)
    filled = time.perf_counter() - start
    set_track_meta(False)
    loader = ThreadDataLoader(cached, num_workers=0, batch_size=2, shuffle=True)
    held = ThreadDataLoader(held, num_workers=0, batch_size=1)
    inferer, metric = windows(roi), DiceMetric()
    decide = Compose([Activations(sigmoid=True), AsDiscrete(threshold=0.5)])

    def step():
        net.train()
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            value = loss(net(batch["image"]), batch["label"])
            value.backward()
            optimizer.step()
        schedule.step()
        return value.item()

    def validate():
        net.eval()
        with torch.no_grad():
            for batch in held:
                found = [decide(each) for each in decollate_batch(inferer(batch["image"], net))]
                metric(found, decollate_batch(batch["label"]))
        each = metric.aggregate("mean_batch").tolist()
        found = {"metric": metric.aggregate("mean").item(), **dict(zip(names, each))}
        metric.reset()
        return found

    progress = Progress(args, net, target)
    for number in range(1, args.epochs + 1):
        progress.epoch(number, step, validate)
    return {"cache_seconds": filled, **progress.figures()}


def windows(roi):
    return SlidingWindowInferer(roi_size=roi, sw_batch_size=4, overlap=0.5)


def predict_regions(args, cases, fixed, net, merge, roi=(32, 32, 32)):
    """From the file of each case to NAME_seg.nii.gz on its own grid: probabilities are taken back, then decided."""
    net.load_state_dict(torch.load(args.weights, weights_only=True))
    net.eval()
    before, inferer = Compose(fixed), windows(roi)
    after = Compose([
        Activationsd("pred", sigmoid=True),
        Invertd("pred", before, orig_keys="image", nearest_interp=False, to_tensor=True),
        AsDiscreted("pred", threshold=0.5),
        *merge,
        SaveImaged("pred", output_dir=args.out, output_postfix="seg", output_dtype="uint8", resample=False, separate_folder=False,
                   print_log=False),
    ])
    each = []
    with torch.no_grad():
        for case in cases:
            start = time.perf_counter()
            item = before({"image": case["image"]})
            item["image"].meta["filename_or_obj"] = case["name"]
            item["pred"] = MetaTensor(inferer(item["image"][None], net)[0], meta=item["image"].meta)
            after(item)
            each.append(time.perf_counter() - start)
    return {"predict_cases": len(each), "predict_case_seconds": statistics.median(each), "predict_seconds": sum(each)}
