"""Records random choices of transforms, mixtures of batches and smooth fields from MONAI, with fixed draws.

    python record_choices.py .

A draw is replaced by a fixed one, so that the recorded result is that of the rest of the transform:
the chosen steps in order, or weights, partners and corner of a mixture, or the points of a field.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import (
    CutMixd,
    CutOutd,
    Flipd,
    MixUpd,
    OneOf,
    RandomOrder,
    RandSmoothDeformd,
    RandSmoothFieldAdjustContrastd,
    RandSmoothFieldAdjustIntensityd,
    Rotate90d,
    ScaleIntensityRanged,
    SomeOf,
    SpatialPadd,
)
from safetensors.numpy import save_file

FOLDER = Path(sys.argv[1])
random = np.random.RandomState(54)


def save(family, name, op, params, call, tensors, tolerance, **more):
    case = {"family": family, "case": name, "op": op, "params": params, "call": call, "tolerance": tolerance}
    case |= {"notes": "", **more}
    tensors = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
    path = FOLDER / family / f"{name}.safetensors"
    save_file(tensors, path, metadata={"case": json.dumps(case, sort_keys=True)})


class Fixed:
    """Stands in for NumPy's generator: the draws of a case, in order."""

    def __init__(self, **draws):
        self.draws = draws

    def __getattr__(self, name):
        return lambda *args, **kwargs: np.asarray(self.draws[name].pop(0))


STEPS = [
    ("Flip", Flipd, {"spatial_axis": 0}),
    ("Rotate90", Rotate90d, {"k": 1, "spatial_axes": [0, 2]}),
    ("SpatialPad", SpatialPadd, {"spatial_size": [7, 6, 5]}),
    ("ScaleIntensityRange", ScaleIntensityRanged, {"a_min": 0.0, "a_max": 2.0, "b_min": -1.0, "b_max": 1.0}),
]


def choices():
    image = random.rand(1, 5, 4, 3).astype(np.float32)
    affine = np.array([[0, -2, 0, 3], [1.5, 0, 0, -4], [0, 0, 3, 5], [0, 0, 0, 1]], dtype=np.float64)
    tables = [{"name": name, "keys": "image", **params} for name, _, params in STEPS]
    cases = [("one_of_pad", "OneOf", [2]), ("one_of_rotate", "OneOf", [1])]
    cases += [("some_of_two", "SomeOf", [2, 0]), ("some_of_repeated", "SomeOf", [1, 3, 1]), ("some_of_none", "SomeOf", [])]
    cases += [("random_order", "RandomOrder", [3, 2, 1, 0]), ("random_order_other", "RandomOrder", [0, 1, 2, 3])]
    for name, op, order in cases:
        steps = [kind(keys="image", **params) for _, kind, params in STEPS]
        params = {"transforms": tables}
        if op == "OneOf":
            made = OneOf(steps)
            made.R = Fixed(multinomial=[np.eye(len(STEPS))[order[0]]])
        elif op == "RandomOrder":
            made = RandomOrder(steps)
            made.R = Fixed(permutation=[order])
        else:
            params |= {"num_transforms": [0, 4], "replace": True}
            made = SomeOf(steps, num_transforms=(0, 4), replace=True)
            made.R = Fixed(randint=[len(order)], choice=[order])
        data = {"image": MetaTensor(torch.from_numpy(image), affine=torch.from_numpy(affine))}
        result = made(data)
        inverse = made.inverse({"image": result["image"].clone()})["image"]
        tensors = {"in.image": image, "in.affine": affine}
        tensors |= {"out.image": result["image"].numpy(), "out.affine": result["image"].affine.numpy()}
        tensors |= {"out.inverse_image": inverse.numpy(), "out.inverse_affine": inverse.affine.numpy()}
        tolerance = {"atol": 1e-6, "rtol": 1e-6, "affine_atol": 1e-6}
        save("transforms_spatial", name, op, params, {"order": order}, tensors, tolerance, inverse=True)


def mixtures():
    cases = [("mix_up", MixUpd), ("cut_mix", CutMixd), ("cut_out", CutOutd)]
    shapes = [("3d", [3, 2, 7, 6, 5]), ("2d", [4, 1, 9, 8])]
    for name, kind in cases:
        for dims, shape in shapes:
            count = shape[0]
            image = random.rand(*shape).astype(np.float32)
            label = random.rand(count, 3, *shape[2:]).astype(np.float32)
            weights = random.beta(0.7, 0.7, count)
            weights[0] = 1.0 if dims == "2d" else weights[0]
            partners = np.roll(np.arange(count), 1)
            corner = [int(random.randint(0, n)) for n in shape[2:]]
            draws = {"rand": [0.0], "beta": [weights], "permutation": [partners], "randint": [np.array([c]) for c in corner]}
            options = {"batch_size": count}
            if kind is CutMixd:
                made = kind(keys="image", label_keys="label", **options)
                options["label_keys"] = "label"
            else:
                made = kind(keys=["image", "label"], **options)
            mixer = next(vars(made)[key] for key in ("mixup", "mixer", "cutout") if key in vars(made))
            mixer.R = Fixed(**draws)
            result = made({"image": torch.from_numpy(image), "label": torch.from_numpy(label)})
            tensors = {"in.image": image, "in.label": label, "in.weights": weights.astype(np.float32)}
            tensors |= {"out.image": result["image"].numpy(), "out.label": result["label"].numpy()}
            call = {"partners": partners.tolist(), "corner": corner}
            op = kind.__name__.removesuffix("d")
            save("transforms_intensity", f"{name}_{dims}", op, options, call, tensors, {"atol": 1e-7, "rtol": 0.0})


CONTRAST, INTENSITY, DEFORM = RandSmoothFieldAdjustContrastd, RandSmoothFieldAdjustIntensityd, RandSmoothDeformd
FIELDS = [
    ("contrast_area_3d", CONTRAST, [2, 7, 6, 5], {"rand_size": [3, 2, 2]}),
    ("contrast_aligned_2d", CONTRAST, [1, 9, 8], {"rand_size": [3, 4], "pad": 1, "mode": "bilinear", "align_corners": True}),
    ("contrast_number", CONTRAST, [1, 6, 5, 4], {"rand_size": [2, 2, 2], "mode": "trilinear", "gamma": 1.5}),
    ("intensity_padded_3d", INTENSITY, [2, 7, 6, 5], {"rand_size": [2, 3, 2], "pad": 2, "mode": "trilinear"}),
    ("intensity_nearest", INTENSITY, [1, 9, 8], {"rand_size": [3, 4], "mode": "nearest", "gamma": [2.0, 0.5]}),
    ("intensity_bicubic", INTENSITY, [1, 9, 8], {"rand_size": [4, 3], "mode": "bicubic"}),
    ("intensity_area_down", INTENSITY, [1, 4, 3, 3], {"rand_size": [5, 4, 4]}),
    ("deform_default_3d", DEFORM, [1, 7, 6, 5], {"rand_size": [3, 3, 3], "def_range": 0.5}),
    ("deform_linear_2d", DEFORM, [2, 9, 8], {"rand_size": [3, 2], "pad": 1, "field_mode": "bilinear", "def_range": 0.3,
     "grid_mode": "bilinear", "grid_padding_mode": "reflection"}),
    ("deform_aligned_3d", DEFORM, [1, 6, 7, 5], {"rand_size": [2, 3, 2], "pad": 1, "field_mode": "trilinear",
     "align_corners": True, "def_range": [-0.2, 0.4], "grid_mode": "bilinear", "grid_padding_mode": "zeros",
     "grid_align_corners": True}),
]


def fields():
    for name, kind, shape, options in FIELDS:
        image = random.rand(*shape).astype(np.float32) * 3 - 1
        made = kind(keys="image", spatial_size=shape[1:], prob=1.0, **options)
        field = made.trans.sfield
        points = random.uniform(field.low, field.high, field.crand_size)
        made.R = Fixed(rand=[0.0])
        made.trans.R = Fixed(rand=[0.0])
        field.R = Fixed(uniform=[points])
        result = made({"image": torch.from_numpy(image)})["image"]
        tensors = {"in.image": image, "in.points": points.astype(np.float32)}
        tensors |= {"out.field": field().numpy(), "out.image": result.numpy()}
        tolerance = {"atol": 2e-6, "rtol": 2e-6}
        params = {"spatial_size": shape[1:], "prob": 1.0, **options}
        family = "transforms_spatial" if kind is DEFORM else "transforms_intensity"
        save(family, f"smooth_{name}", kind.__name__.removesuffix("d"), params, {}, tensors, tolerance)


choices()
mixtures()
fields()
