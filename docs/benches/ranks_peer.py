"""MONAI's side of demo-brats on several ranks: DistributedDataParallel over gloo, a thread for each rank.

    hearth data phantom brats --cases 24 --out heads
    python -m torch.distributed.run --nproc_per_node 2 docs/benches/ranks_peer.py heads --epochs 5
    hearth train demo-brats --data heads --out run --epochs 5 --ranks 2     # its epochs: log.jsonl

Each rank caches its part of the training cases (partition_dataset) and takes batches of two cases, four crops each. The line of JSON
has the median seconds of an epoch, without validation, and how many steps it has.
"""
import argparse
import json
import statistics
import time
from pathlib import Path

import brats_peer
import torch
import torch.distributed as dist
from monai.data import CacheDataset, ThreadDataLoader, partition_dataset, set_track_meta
from monai.losses import DiceFocalLoss
from monai.optimizers import Novograd
from monai.transforms import Compose, EnsureTyped
from monai.utils import set_determinism


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(args.threads)
    set_determinism(0)
    cases = brats_peer.listed(args.data)[:-4]
    own = partition_dataset(cases, num_partitions=world, shuffle=True, seed=0, even_divisible=True)[rank]
    plain = EnsureTyped(["image", "label"], track_meta=False)
    chain = Compose([*brats_peer.fixed(["image", "label"]), plain, *brats_peer.RANDOM])
    cached = CacheDataset(own, chain, num_workers=args.threads, copy_cache=False, progress=False)
    set_track_meta(False)
    loader = ThreadDataLoader(cached, num_workers=0, batch_size=args.batch, shuffle=True)
    net = torch.nn.parallel.DistributedDataParallel(brats_peer.network())
    optimizer = Novograd(net.parameters(), lr=0.01)
    loss = DiceFocalLoss(sigmoid=True, squared_pred=True, batch=True)
    seconds = []
    for _ in range(args.epochs):
        start = time.perf_counter()
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            loss(net(batch["image"]), batch["label"]).backward()
            optimizer.step()
        dist.barrier()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        said = {"peer": "monai", "ranks": world, "threads": args.threads, "steps": len(loader), "epoch_seconds": statistics.median(seconds)}
        print(json.dumps(said), flush=True)
    dist.destroy_process_group()


main()
