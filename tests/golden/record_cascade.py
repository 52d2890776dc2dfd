"""Records what nnU-Net's transforms do to the labels of an earlier stage, with the drawn numbers given.

    python3 tests/golden/record_cascade.py [FOLDER]

Needs nnunetv2 2.8 (batchgeneratorsv2, acvl_utils, scikit-image) and safetensors. It writes cascade.json, which lists
the cases with their parameters, and cascade.safetensors with their arrays: `NAME.in` and `NAME.out`, a bit for each
voxel of each channel, the highest of a byte first.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from batchgeneratorsv2.transforms.nnunet import random_binary_operator as operators
from batchgeneratorsv2.transforms.nnunet.remove_connected_components import (
    RemoveRandomConnectedComponentFromOneHotEncodingTransform as RemoveComponent,
)
from batchgeneratorsv2.transforms.nnunet.seg_to_onehot import MoveSegAsOneHotToDataTransform
from safetensors.numpy import save_file
from scipy.ndimage import gaussian_filter

OPERATORS = {
    "dilation": operators.binary_dilation_torch,
    "erosion": operators.binary_erosion_torch,
    "closing": operators.binary_closing_torch,
    "opening": operators.binary_opening_torch,
}


def labels(shape, seed, classes=2, smooth=1.6):
    """A label map of blobs that touch the borders, and of single voxels."""
    random = np.random.RandomState(seed)
    fields = np.stack([gaussian_filter(random.standard_normal(shape), smooth) for _ in range(classes + 1)])
    found = fields.argmax(0).astype(np.int16)
    found[random.uniform(size=shape) < 0.004] = classes
    return found


def few(shape, seed, inverted):
    """Label 1 and 2 in few voxels; inverted, label 1 in all but few: what is left of large balls."""
    random = np.random.RandomState(seed)
    drawn = random.uniform(size=shape)
    if inverted:
        return np.where(drawn < 0.004, 0, np.where(drawn > 0.996, 2, 1)).astype(np.int16)
    return np.where(drawn < 0.003, 1, np.where(drawn > 0.99, 2, 0)).astype(np.int16)


def one_hot(found, classes=2):
    image = torch.zeros((1, *found.shape))
    data = {"image": image, "segmentation": torch.from_numpy(np.stack([np.zeros_like(found), found]))}
    moved = MoveSegAsOneHotToDataTransform(1, list(range(1, classes + 1)), True)(**data)
    return moved["image"][1:]


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "nnunet/training"
    cases, arrays, filled = [], {}, []

    def add(name, before, after, **facts):
        arrays[f"{name}.in"] = np.packbits(before.numpy().astype(bool))
        arrays[f"{name}.out"] = np.packbits(after.numpy().astype(bool))
        filled.append(float(after[facts["channel"]].mean()) if isinstance(facts["channel"], int) else 0.5)
        cases.append({"name": name, "shape": list(before.shape[1:]), "channels": before.shape[0], **facts})

    # Radii are drawn as real numbers: balls have an odd or an even number of voxels across.
    volume, slices = (14, 17, 19), (25, 23)
    for number, radius in enumerate([1.0, 1.3, 1.5, 2.2, 2.75, 3.0, 4.6, 5.0, 5.1, 6.62, 8.0]):
        for place, (name, operator) in enumerate(OPERATORS.items()):
            if radius > 3 and (place + number) % 2:
                continue
            seed, channel = 10 * number + place, place % 2
            if radius > 2:
                channel = 0
                before = one_hot(few(volume, seed, name in ("erosion", "opening")))
            else:
                before = one_hot(labels(volume, seed))
            step = operators.ApplyRandomBinaryOperatorTransform(channel_idx=[-2, -1])
            given = {"apply_to_channels": [channel - 2], "operators": [operator], "strel_size": [radius]}
            after = step._apply_to_image(before.clone(), **given)
            add(f"{name}_{radius}", before, after, op=name, radius=radius, channel=channel)
    for number, (name, radius) in enumerate([("dilation", 2.6), ("erosion", 1.5), ("closing", 4.2), ("opening", 2.0)]):
        before = one_hot(labels(slices, 300 + number))
        step = operators.ApplyRandomBinaryOperatorTransform(channel_idx=[-2, -1])
        given = {"apply_to_channels": [-1], "operators": [OPERATORS[name]], "strel_size": [radius]}
        add(f"{name}_2d", before, step._apply_to_image(before.clone(), **given), op=name, radius=radius, channel=1)
    # Two labels, one after the other: what the first takes from the second.
    before = one_hot(labels(volume, 400))
    step = operators.ApplyRandomBinaryOperatorTransform(channel_idx=[-2, -1])
    chosen = [OPERATORS["dilation"], OPERATORS["closing"]]
    given = {"apply_to_channels": [-1, -2], "operators": chosen, "strel_size": [2.4, 3.2]}
    after = step._apply_to_image(before.clone(), **given)
    add("one_after_the_other", before, after, op=["dilation", "closing"], radius=[2.4, 3.2], channel=[1, 0])
    for number, (share, pick, shape) in enumerate([
        (0.15, 0, volume), (0.15, 3, volume), (0.15, -1, volume), (0.002, 1, volume), (0.15, 2, slices), (0.0, 0, volume),
    ]):
        before = one_hot(labels(shape, 500 + number, smooth=1.1))
        count = []

        def choose(candidates, pick=pick):
            count.append(len(candidates))
            return candidates[pick]

        step = RemoveComponent(channel_idx=[-2, -1], fill_with_other_class_p=0, dont_do_if_covers_more_than_x_percent=share)
        with mock.patch("numpy.random.choice", choose):
            after = step._apply_to_image(before.clone(), apply_to_channels=[-1])
        candidates = count[0] if count else 0
        pick = pick % candidates if candidates else 0
        add(f"component_{number}", before, after, op="component", share=share, channel=1, candidates=candidates, pick=pick)
    save_file(arrays, out / "cascade.safetensors")
    versions = {name: version(name) for name in ["nnunetv2", "batchgeneratorsv2", "acvl_utils", "scikit-image", "torch"]}
    text = ",\n  ".join(json.dumps(case) for case in cases)
    (out / "cascade.json").write_text(f'{{"versions": {json.dumps(versions)}, "cases": [\n  {text}\n]}}\n')
    changed = sum(int((arrays[f"{case['name']}.in"] != arrays[f"{case['name']}.out"]).any()) for case in cases)
    trivial = sum(1 for share in filled if share in (0.0, 1.0))
    print(f"{len(cases)} cases, {changed} of them changed, {trivial} of them empty or full")


if __name__ == "__main__":
    main()
