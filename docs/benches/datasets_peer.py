"""MONAI's side of `hearth bench datasets`: the kinds of data sets, without a network.

    hearth data phantom spleen --cases 12 --size 128 --out volumes
    python docs/benches/datasets_peer.py volumes
    hearth bench datasets volumes

Each kind has a process of its own and a line of JSON with the fields of `hearth bench datasets`: seconds to start, to start again with
the cases on disk, of each epoch, the peak of resident memory. The chain is the spleen recipe's with four crops a case. MONAI fills
PersistentDataset and LMDBDataset in the first epoch (LMDBDataset when it is made); a smart cache is filled when it is made. Loaders have
--threads processes, except that data in memory is read by ThreadDataLoader, as its guide has it; --processes reads that, too, with
processes. The peak is that of the main process, without the processes of a loader.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KINDS = ["Dataset", "PersistentDataset", "LMDBDataset", "CacheDataset", "SmartCacheDataset"]


def chain(patch):
    from monai import transforms as T

    keys = ["image", "label"]
    return T.Compose([
        T.LoadImaged(keys),
        T.EnsureChannelFirstd(keys),
        T.Orientationd(keys, axcodes="RAS", labels=None),
        T.Spacingd(keys, pixdim=(1.5, 1.5, 2.0), mode=("bilinear", "nearest")),
        T.ScaleIntensityRanged("image", a_min=-57, a_max=164, b_min=0.0, b_max=1.0, clip=True),
        T.CropForegroundd(keys, source_key="image", allow_smaller=True),
        T.FgBgToIndicesd("label", fg_postfix="_fg", bg_postfix="_bg", image_key="image"),
        T.EnsureTyped(keys, track_meta=False),
        T.RandCropByPosNegLabeld(keys, label_key="label", spatial_size=(patch,) * 3, pos=1, neg=1, num_samples=4,
                                 fg_indices_key="label_fg", bg_indices_key="label_bg", allow_smaller=True),
    ])


def dataset(kind, cases, steps, folder, workers):
    from monai import data

    match kind:
        case "Dataset":
            return data.Dataset(cases, steps)
        case "PersistentDataset":
            return data.PersistentDataset(cases, steps, cache_dir=folder)
        case "LMDBDataset":
            return data.LMDBDataset(cases, steps, cache_dir=folder, progress=False)
        case "CacheDataset":
            return data.CacheDataset(cases, steps, num_workers=workers, copy_cache=False, progress=False)
        case _:
            return data.SmartCacheDataset(cases, steps, cache_rate=0.8, replace_rate=0.25, num_init_workers=workers,
                                          num_replace_workers=workers, progress=False, copy_cache=False)


def measure(args, kind):
    import monai
    import torch
    from monai.data import DataLoader, ThreadDataLoader, list_data_collate, load_decathlon_datalist
    from monai.utils import set_determinism

    torch.set_num_threads(args.threads)
    set_determinism(args.seed)
    cases = load_decathlon_datalist(args.data / "dataset.json", True, "training", args.data)
    steps, samples, epochs = chain(args.patch), 0, []
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        made = dataset(kind, cases, steps, folder, args.threads)
        start = time.perf_counter() - begin
        same = {"batch_size": args.batch, "shuffle": kind != "SmartCacheDataset", "collate_fn": list_data_collate}
        threads = kind in ("CacheDataset", "SmartCacheDataset") and not args.processes
        loader = ThreadDataLoader(made, num_workers=0, **same) if threads else DataLoader(made, num_workers=args.threads, **same)
        if kind == "SmartCacheDataset":
            made.start()
        for epoch in range(args.epochs):
            begin = time.perf_counter()
            samples = sum(len(batch["image"]) for batch in loader)
            if kind == "SmartCacheDataset":
                made.update_cache()
            epochs.append(time.perf_counter() - begin)
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        peak, again = int(status["VmHWM"].split()[0]) * 1024, None
        if kind == "SmartCacheDataset":
            made.shutdown()
        if kind in ("PersistentDataset", "LMDBDataset"):
            begin = time.perf_counter()
            dataset(kind, cases, steps, folder, args.threads)
            again = time.perf_counter() - begin
    print(json.dumps({
        "peer": "monai", "monai": monai.__version__, "torch": torch.__version__, "threads": args.threads, "bench": "datasets",
        "kind": kind, "loader": type(loader).__name__, "data": args.data.name, "cases": len(made), "samples": samples, "patch": args.patch, "batch": args.batch,
        "start_seconds": start, "restart_seconds": again, "epoch_seconds": epochs, "seconds": start + sum(epochs), "peak": peak,
    }), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a Decathlon folder, as `hearth data phantom spleen` writes it")
    parser.add_argument("--kind", choices=KINDS, help="this kind alone, in this process")
    parser.add_argument("--processes", action="store_true", help="data in memory is read with processes, too")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--patch", type=int, default=64)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.kind:
        return measure(args, args.kind)
    for kind in KINDS:
        subprocess.run([sys.executable, *sys.argv, "--kind", kind], check=True)


main()
