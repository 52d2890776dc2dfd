"""Writes what scipy and scikit-image make of some masks: the cases of label.rs.

    python label_scipy.py OUT.json [SEED [SCALE]]
"""

import json
import sys

import numpy as np
from scipy import ndimage
from skimage import measure

SHAPES = [(13,), (6, 9), (1, 7), (8, 1), (9, 6, 7), (5, 1, 6), (1, 6, 5), (6, 7, 1), (2, 5, 4, 6)]


def case(rng, shape, density):
    rank = len(shape)
    smooth = ndimage.gaussian_filter(rng.standard_normal(shape), 0.7)
    mask = smooth > np.quantile(smooth, 1 - density)
    values = np.where(mask, rng.integers(1, 4, shape), 0)
    spacing = [round(float(s), 3) for s in rng.uniform(0.4, 3.0, rank)]
    out = {"shape": shape, "values": values.ravel().tolist(), "spacing": spacing, "by_connectivity": []}
    if rank <= 3:
        distances = {
            "unset": ndimage.distance_transform_edt(mask, sampling=spacing) if not mask.all() else None,
            "set": ndimage.distance_transform_edt(~mask, sampling=spacing) if mask.any() else None,
            "unset_unit": ndimage.distance_transform_edt(mask) if not mask.all() else None,
        }
        out["distances"] = {k: None if v is None else v.ravel().tolist() for k, v in distances.items()}
    for connectivity in range(1, rank + 1):
        structure = ndimage.generate_binary_structure(rank, connectivity)
        filled = ndimage.binary_fill_holes(mask, structure)
        out["by_connectivity"].append(
            {
                "labels": measure.label(mask, connectivity=connectivity).ravel().tolist(),
                # scikit-image labels values in up to three dimensions.
                "by_value": canonical(measure.label(values, connectivity=connectivity)) if rank < 4 else None,
                "eroded": ndimage.binary_erosion(mask, structure).astype(int).ravel().tolist(),
                "eroded_within": ndimage.binary_erosion(mask, structure, border_value=1).astype(int).ravel().tolist(),
                "dilated": ndimage.binary_dilation(mask, structure).astype(int).ravel().tolist(),
                "dilated_from_edge": ndimage.binary_dilation(mask, structure, border_value=1).astype(int).ravel().tolist(),
                "filled": filled.astype(int).ravel().tolist(),
            }
        )
    return out


def canonical(labels):
    """Numbered by first voxels in raster order; scikit-image promises no order for label maps."""
    found, first = np.unique(labels, return_index=True)
    number = {0: 0}
    for label in found[np.argsort(first)]:
        number.setdefault(int(label), len(number))
    return np.vectorize(number.get)(labels).ravel().tolist()


def main():
    path, seed, scale = sys.argv[1], int((sys.argv + ["7"])[2]), int((sys.argv + ["", "1"])[3])
    rng = np.random.default_rng(seed)
    cases = []
    for shape in SHAPES:
        for density in (0.0, 0.3, 0.6, 0.8, 1.0) if len(shape) < 3 else (0.35, 0.65, 0.85):
            cases.append(case(rng, [n if n == 1 else n * scale for n in shape], density))
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


main()
