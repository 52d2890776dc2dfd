"""MONAI's side of `hearth demo ensemble`: the cross-validation of its models_ensemble notebook on the demo's small volumes.

    hearth demo ensemble --out demo
    python docs/benches/ensemble_peer.py demo/data

Five UNets are trained on the folds of seed 12345 and merged as EnsembleEvaluator, MeanEnsemble and VoteEnsemble do. A line of JSON at
the end: seconds of training and of predicting the test volumes with all five, Dice of each member and merged, peak of resident memory.
"""
import argparse
import json
import resource
import time
from pathlib import Path

import torch
from monai.data import CacheDataset, DataLoader, decollate_batch, partition_dataset
from monai.inferers import SlidingWindowInferer
from monai.losses import DiceLoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import (
    Activations, AsDiscrete, Compose, EnsureChannelFirstd, LoadImaged, MeanEnsemble, RandCropByPosNegLabeld, RandRotate90d, ScaleIntensityd,
    VoteEnsemble,
)
from monai.utils import set_determinism

KEYS = ["image", "label"]
LOAD = [LoadImaged(KEYS), EnsureChannelFirstd(KEYS), ScaleIntensityd(KEYS)]
RANDOM = [
    RandCropByPosNegLabeld(KEYS, label_key="label", spatial_size=[32] * 3, pos=1, neg=1, num_samples=4),
    RandRotate90d(KEYS, prob=0.5, spatial_axes=[0, 2]),
]


def listed(folder):
    cases = json.loads((folder / "dataset.json").read_text())["training"]
    return [{key: str(folder / case[key]) for key in KEYS} for case in cases]


def network():
    return UNet(3, 1, 1, channels=(8, 16, 32, 64), strides=(2, 2, 2), num_res_units=2)


def train(cases, validation, epochs, inferer):
    net, loss = network(), DiceLoss(sigmoid=True)
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    loader = DataLoader(CacheDataset(cases, Compose(LOAD + RANDOM), progress=False), batch_size=2, shuffle=True)
    held = DataLoader(CacheDataset(validation, Compose(LOAD), progress=False), batch_size=1)
    for epoch in range(epochs):
        net.train()
        for batch in loader:
            optimizer.zero_grad()
            loss(net(batch["image"]), batch["label"]).backward()
            optimizer.step()
        if (epoch + 1) % 10 == 0:
            net.eval()
            with torch.no_grad():
                for batch in held:
                    inferer(batch["image"], net)
    return net.eval()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    set_determinism(0)
    inferer = SlidingWindowInferer([32] * 3, sw_batch_size=4, overlap=0.5)
    folds = partition_dataset(listed(args.data), num_partitions=5, shuffle=True, seed=12345)
    start, nets = time.time(), []
    for fold in range(5):
        others = [case for other, part in enumerate(folds) if other != fold for case in part]
        nets.append(train(others, folds[fold], args.epochs, inferer))
    training, start = time.time() - start, time.time()
    sigmoid, discrete = Activations(sigmoid=True), AsDiscrete(threshold=0.5)
    metrics = [DiceMetric() for _ in range(7)]
    with torch.no_grad():
        for batch in DataLoader(CacheDataset(listed(args.data / "test"), Compose(LOAD), progress=False), batch_size=1):
            logits = [decollate_batch(inferer(batch["image"], net))[0] for net in nets]
            decided = [discrete(sigmoid(x)) for x in logits]
            merged = [discrete(sigmoid(MeanEnsemble()(logits))), VoteEnsemble()(decided)]
            for metric, pred in zip(metrics, decided + merged):
                metric(pred[None], batch["label"])
    dice = [metric.aggregate().item() for metric in metrics]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"training": training, "predicting": time.time() - start, "members": dice[:5], "mean": dice[5], "vote": dice[6],
                      "threads": torch.get_num_threads(), "peak_mib": peak}))


main()
