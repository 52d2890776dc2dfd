"""MONAI's side of `hearth bench ladder` on generated volumes: the recipe demo, with one more speed-up in each row.

    hearth data phantom spleen --hard --cases 24 --size 64 --out volumes
    python docs/benches/ladder_peer.py volumes --seeds 3 --target 0.8 --epochs 300 --keep ladder_peer.jsonl
    hearth bench ladder --seeds 3 --target 0.8 --epochs 300 --out ladder

`hearth bench ladder` generates the same volumes. Each training has a process of its own and a line of JSON with the fields of
`ladder.jsonl`; one that is in --keep is not repeated. Seconds to the target include preparation (filling caches) and validations. The
rate is constant. Rows that MONAI has no counterpart of (fused kernels, batch transforms) are left out, and device transforms without a
GPU.

Other than in the recipe: the crops' random numbers, the initial weights, and the order of cases.
"""
import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Each row has all changes of those before it.
ROWS = ["plain", "cache", "threads", "device transforms", "AMP", "loss DiceCELoss", "optimizer Novograd", "optimizer SGD"]
PATCH = (32, 32, 32)
HELD = 4


def rows(args):
    """The rows that apply to this machine."""
    skipped = ({"device transforms"} if args.device == "cpu" else set()) | ({"AMP"} if args.amp == "none" else set())
    return [row for row in ROWS if row not in skipped]


def fixed(T, keys):
    return [
        T.LoadImaged(keys),
        T.EnsureChannelFirstd(keys),
        T.Orientationd(keys, axcodes="RAS", labels=None),
        T.Spacingd(keys, pixdim=(2.75,) * 3, mode=("bilinear", "nearest")),
        T.ScaleIntensityRanged("image", a_min=-57, a_max=164, b_min=0.0, b_max=1.0, clip=True),
        T.CropForegroundd(keys, source_key="image", allow_smaller=True),
    ]


def chains(on_device, device):
    from monai import transforms as T

    keys = ["image", "label"]
    plain = T.EnsureTyped(keys, track_meta=False, **({"device": device} if on_device else {}))
    crop = T.RandCropByPosNegLabeld(keys, label_key="label", spatial_size=PATCH, pos=1, neg=1, num_samples=4,
                                    fg_indices_key="label_fg", bg_indices_key="label_bg")
    lists = T.FgBgToIndicesd("label", fg_postfix="_fg", bg_postfix="_bg", image_key="image")
    return T.Compose([*fixed(T, keys), lists, plain, crop]), T.Compose([*fixed(T, keys), plain])


def loaders(args, has):
    from monai.data import CacheDataset, DataLoader, Dataset, ThreadDataLoader, load_decathlon_datalist

    cases = load_decathlon_datalist(args.data / "dataset.json", True, "training", args.data)
    train, held = chains(has("device transforms"), args.device)
    kept = {"num_workers": args.threads, "copy_cache": False, "progress": False}
    made = [CacheDataset(part, steps, **kept) if has("cache") else Dataset(part, steps)
            for part, steps in ((cases[:-HELD], train), (cases[-HELD:], held))]
    loader = ThreadDataLoader if has("threads") else DataLoader
    return loader(made[0], batch_size=2, shuffle=True, num_workers=0), loader(made[1], batch_size=1, num_workers=0)


def parts(args, has):
    import torch
    from monai.losses import DiceCELoss, DiceLoss
    from monai.networks.nets import UNet
    from monai.optimizers import Novograd

    net = UNet(3, 1, 2, (12, 24, 48, 96), (2, 2, 2), num_res_units=2, norm="batch").to(args.device)
    same = {"to_onehot_y": True, "softmax": True}
    loss = DiceCELoss(squared_pred=True, batch=True, **same) if has("loss DiceCELoss") else DiceLoss(**same)
    if has("optimizer SGD"):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=3e-5)
    elif has("optimizer Novograd"):
        optimizer = Novograd(net.parameters(), lr=2e-3)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=2e-4)
    return net, loss, optimizer


def train(args, row, seed):
    import monai
    import torch
    from monai.data import decollate_batch
    from monai.inferers import SlidingWindowInferer
    from monai.metrics import DiceMetric
    from monai.transforms import AsDiscrete
    from monai.utils import set_determinism

    torch.set_num_threads(args.threads)
    set_determinism(seed)
    if args.device != "cpu":
        torch.backends.cudnn.benchmark = True

    def has(name):
        return name in rows(args)[: rows(args).index(row) + 1]

    start = time.perf_counter()
    loader, held = loaders(args, has)
    net, loss, optimizer = parts(args, has)
    kind = torch.bfloat16 if args.amp == "bf16" else torch.float16
    cast = (lambda: torch.autocast(torch.device(args.device).type, dtype=kind)) if has("AMP") else contextlib.nullcontext
    scaler = torch.amp.GradScaler(enabled=has("AMP") and args.amp == "fp16")
    inferer, metric = SlidingWindowInferer(roi_size=PATCH, sw_batch_size=4, overlap=0.5), DiceMetric(include_background=False)
    decide, truth = AsDiscrete(argmax=True, to_onehot=2), AsDiscrete(to_onehot=2)
    prepared, epochs, curve, hit = time.perf_counter() - start, [], [], None
    for epoch in range(1, args.epochs + 1):
        begin = time.perf_counter()
        net.train()
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            with cast():
                value = loss(net(batch["image"].to(args.device)), batch["label"].to(args.device))
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
        epochs.append(time.perf_counter() - begin)
        if epoch % args.every:
            continue
        net.eval()
        with torch.no_grad(), cast():
            for batch in held:
                found = decollate_batch(inferer(batch["image"].to(args.device), net))
                metric([decide(each) for each in found], [truth(each) for each in decollate_batch(batch["label"].to(args.device))])
        dice = metric.aggregate().item()
        metric.reset()
        curve.append({"epoch": epoch, "seconds": time.perf_counter() - start, "value": dice if dice == dice else None})
        print(json.dumps(curve[-1]), file=sys.stderr, flush=True)
        if dice >= args.target:
            hit = curve[-1]
            break
    print(json.dumps({
        "peer": "monai", "monai": monai.__version__, "torch": torch.__version__, "threads": args.threads, "bench": "ladder",
        "recipe": "demo", "data": args.data.name, "target": args.target, "every": args.every, "max_epochs": args.epochs,
        "device": args.device, "amp": args.amp, "row": row, "seed": seed, "seconds": hit and hit["seconds"],
        "target_epoch": hit and hit["epoch"], "epoch_seconds": statistics.median(epochs), "prepare_seconds": prepared,
        "epochs": len(epochs), "metric": "dice", "best": max((point["value"] or 0.0 for point in curve), default=0.0),
        "total": time.perf_counter() - start, "curve": curve,
    }), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="what `hearth data phantom spleen --hard` wrote")
    parser.add_argument("--row", choices=ROWS, help="this row alone, in this process")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--target", type=float, default=0.8)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--amp", choices=["none", "bf16", "fp16"], default="none")
    parser.add_argument("--keep", type=Path, help="the lines are added to this file")
    args = parser.parse_args()
    if args.row:
        return train(args, args.row, args.seed)
    kept = args.keep.read_text().splitlines() if args.keep and args.keep.exists() else []
    finished = {(line["row"], line["seed"]) for line in map(json.loads, kept)}
    for row in rows(args):
        for seed in range(args.seed, args.seed + args.seeds):
            if (row, seed) in finished:
                continue
            command = [sys.executable, *sys.argv, "--row", row, "--seed", str(seed)]
            line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip().splitlines()[-1]
            print(line, flush=True)
            if args.keep:
                with args.keep.open("a") as file:
                    file.write(line + "\n")


main()
