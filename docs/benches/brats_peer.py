"""MONAI's side of the recipe demo-brats: tumour core, whole tumour and enhancing tumour in generated MR, a small SegResNet.

    hearth data phantom brats --cases 24 --out heads
    python docs/benches/brats_peer.py heads
    hearth train demo-brats --data heads --out run
    hearth predict run -i heads/imagesTr/BRATS_2[0-3].nii.gz -o labels

The last four cases validate and are predicted, each into a label map on its own grid. A line of JSON at the end: seconds of an epoch
(median, without validation), of filling the caches, of a validation; the Dice of the last and the best validation (`metric` is
the mean); the seconds until --target for WT, from the start of the training (caches filled) and with validations; the seconds from a
case's file to its written label map; peaks of resident memory of training and prediction, each a process of its own.

Other than in the recipe: the crops' random numbers, the initial weights, and the order of cases.
"""
import json
from pathlib import Path

import peer
import torch
from monai.losses import DiceFocalLoss
from monai.networks.nets import SegResNet
from monai.optimizers import Novograd
from monai.transforms import (
    EnsureChannelFirstd, Lambdad, LoadImaged, NormalizeIntensityd, Orientationd, RandCropByPosNegLabeld, RandFlipd, RandScaleIntensityd,
    RandShiftIntensityd,
)

NAMES = ["TC", "WT", "ET"]


def regions(label):
    """The Decathlon's labels: 1 is oedema, 2 the non-enhancing core, 3 the enhancing tumour."""
    return torch.cat([(label == 2) | (label == 3), label > 0, label == 3]).float()


def labels(regions):
    """The opposite: the enhancing tumour lies in the core, the core in the whole."""
    core, whole, enhancing = regions.bool()
    return torch.where(enhancing, 3, torch.where(core, 2, whole.long()))[None]


def fixed(keys):
    return [
        LoadImaged(keys),
        EnsureChannelFirstd(keys),
        Lambdad("label", regions, allow_missing_keys=True),
        Orientationd(keys, axcodes="RAS", labels=None),
        NormalizeIntensityd("image", nonzero=True, channel_wise=True),
    ]


KEYS = ["image", "label"]
RANDOM = [
    RandCropByPosNegLabeld(KEYS, label_key="label", spatial_size=[32] * 3, pos=2, neg=1, num_samples=4),
    RandFlipd(KEYS, spatial_axis=0, prob=0.5),
    RandScaleIntensityd("image", factors=0.1, prob=0.5),
    RandShiftIntensityd("image", offsets=0.1, prob=0.5),
]


def network():
    return SegResNet(spatial_dims=3, in_channels=4, out_channels=3, init_filters=8, blocks_down=(1, 2, 2), blocks_up=(1, 1))


def listed(folder):
    cases = json.loads((folder / "dataset.json").read_text())["training"]
    return [{"name": Path(case["image"]).name, **{key: str(folder / case[key]) for key in KEYS}} for case in cases]


def train(args):
    cases, net = listed(args.data), network()
    optimizer = Novograd(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
    loss = DiceFocalLoss(sigmoid=True, squared_pred=True, batch=True)
    return peer.train_regions(args, cases[:-4], cases[-4:], fixed(KEYS), RANDOM, net, loss, optimizer, schedule, NAMES, "WT", [])


def predict(args):
    return peer.predict_regions(args, listed(args.data)[-4:], fixed(["image"]), network(), [Lambdad("pred", labels)])


if __name__ == "__main__":
    peer.run("brats", peer.arguments(__doc__, epochs=40, interval=5), train, predict)
