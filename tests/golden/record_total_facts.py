"""Records TotalSegmentator's table of tasks, and what it removes from labels and crops of images, of small volumes.

    python3 tests/golden/record_total_facts.py [FOLDER]

Needs TotalSegmentator 2.18. Writes total_tasks.json (open weights only) and total_cleaning.json. Volumes are x y z, the
last axis fastest, as digits or letters: label 10 is `a`.
"""

import json
import sys
from pathlib import Path

import nibabel as nib
import numpy as np
from totalsegmentator.cropping import crop_to_mask
from totalsegmentator import map_to_binary
from totalsegmentator.map_tasks_config import TASK_CONFIGS, TASK_ID_WEIGHTS_CONFIGS
from totalsegmentator.map_to_binary import class_map
from totalsegmentator.postprocessing import (
    keep_largest_blob_multilabel,
    postprocess_vertebrae_pp,
    remove_small_blobs_multilabel,
)
from totalsegmentator.python_api import get_task_config
from totalsegmentator.registry import TASKS, task_modality

FROM = "TotalSegmentator 2.18.0 (Apache-2.0)"
# What is not in the table: tests, and a task that refines another one's labels by a second model.
OTHERS = ["test", "total_highres_test", "vertebrae_pp_refined"]
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def text(volume):
    return "".join(DIGITS[int(label)] for label in volume.ravel())


def noise(rng, shape, classes, share):
    values = rng.integers(1, classes + 1, shape)
    return np.where(rng.random(shape) < share, values, 0).astype(np.uint8)


def blobs(rng):
    """Sparse and dense labels; components of each size."""
    for shape, classes, share, spacing in (
        ((9, 7, 8), 2, 0.45, (1.5, 1.5, 1.5)),
        ((6, 10, 9), 2, 0.6, (0.75, 0.75, 1.0)),
        ((8, 8, 8), 2, 0.25, (6.0, 6.0, 6.0)),
    ):
        data = noise(rng, shape, classes, share)
        names = {1: "body_trunc", 2: "body_extremities"}
        volume = np.prod(np.float32(spacing))
        # So that some components have exactly as many voxels.
        size = float(3 * volume)
        largest = keep_largest_blob_multilabel(data.copy(), names, ["body_trunc"], quiet=True)
        one = remove_small_blobs_multilabel(data.copy(), names, ["body_extremities"], [size / volume, 1e10], quiet=True)
        both = remove_small_blobs_multilabel(data.copy(), names, list(names.values()), [size / volume, 1e10], quiet=True)
        yield {"shape": shape, "spacing": spacing, "data": text(data), "size": size, "largest_1": text(largest),
               "small_2": text(one), "small_all": text(both)}


def vertebrae():
    """Bodies that touch or not, of a spine, of a head, and of the noise between."""
    def volume(*boxes):
        data = np.zeros((9, 9, 40), np.uint8)
        for label, (x, y, z) in boxes:
            data[slice(*x), slice(*y), slice(*z)] = label
        return data

    body = ((2, 7), (2, 7))
    yield volume((24, (*body, (2, 5))), (23, (*body, (12, 15))), (22, (*body, (18, 21))))
    yield volume((24, (*body, (2, 8))), (23, ((2, 4), (2, 7), (2, 5))), (23, (*body, (14, 19))), (22, (*body, (25, 30))),
                 (5, ((0, 1), (0, 1), (36, 37))))
    yield volume((1, (*body, (33, 38))), (2, ((2, 4), (2, 7), (33, 35))), (2, (*body, (23, 28))), (4, (*body, (13, 17))))
    yield volume((2, (*body, (4, 8))), (1, ((2, 4), (2, 7), (4, 6))), (24, (*body, (20, 24))), (3, (*body, (30, 33))))
    yield volume((3, ((1, 3), (1, 3), (4, 6))), (4, ((3, 4), (1, 3), (4, 6))))


def crops(rng):
    for shape, spacing, margin in (((12, 10, 14), (0.8, 1.0, 3.0), 2), ((9, 9, 9), (0.7, 0.7, 0.7), 1.4), ((8, 8, 8), (1, 1, 1), 20)):
        mask = np.zeros(shape, np.uint8)
        mask[4:6, 3:5, 4:7] = 1
        image = nib.Nifti1Image(rng.normal(0, 5, shape), np.diag([*spacing, 1.0]))
        found, box = crop_to_mask(image, nib.Nifti1Image(mask, image.affine), addon=[margin] * 3, dtype=np.int32)
        first = [float(value) for value in image.get_fdata()[box[0][0] : box[0][1], box[1][0], box[2][0]]]
        kept = [int(value) for value in np.asanyarray(found.dataobj)[:, 0, 0]]
        yield {"shape": shape, "spacing": spacing, "margin": margin, "box": box, "values": first, "truncated": kept}


def tasks():
    parts = {"total": map_to_binary.class_map_5_parts, "total_v3": map_to_binary.class_map_5_parts_total_v3,
             "total_mr": map_to_binary.class_map_parts_mr,
             "headneck_muscles": map_to_binary.class_map_parts_headneck_muscles}
    for name in TASKS:
        task = TASK_CONFIGS[name]
        if name in OTHERS or task.get("commercial"):
            continue
        models = []
        for mode in ("default", "fast", "fastest"):
            if mode != "default" and mode not in task.get("sub_modes", []):
                continue
            found = get_task_config(name, fast=mode == "fast", fastest=mode == "fastest", quiet=True)
            ids = found["task_id"] if isinstance(found["task_id"], list) else [found["task_id"]]
            voxels = found["resample"]
            voxels = [voxels] * 3 if isinstance(voxels, float) else voxels
            voxels = voxels and [float(size) for size in voxels]
            models.append({"mode": mode, "folders": [TASK_ID_WEIGHTS_CONFIGS[id]["foldername"] for id in ids],
                           "voxels_xyz": voxels, "trainer": found["trainer"], "configuration": found["model"],
                           "folds": found["folds"]})
        auxiliary = list(class_map.get(f"{name}_auxiliary", {}).values())
        entry = {"name": name, "modality": task_modality(name), "classes": list(class_map[name].values()),
                 "auxiliary": auxiliary, "models": models, "crop": found["crop"], "robust": bool(found["robust_crop"]),
                 "crop_model": found["crop_model"]}
        if name in parts:
            entry["parts"] = [list(part.values()) for title, part in parts[name].items() if title != "test"]
        yield entry


def main():
    rng = np.random.default_rng(3)
    here = Path(__file__).parent / "../../engine/nnunet/tests/recorded"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    (folder / "total_tasks.json").write_text(json.dumps({"from": FROM, "tasks": list(tasks())}, indent=1) + "\n")
    spines = []
    for data in vertebrae():
        spacing = np.float32([1.5] * 3)
        found = postprocess_vertebrae_pp(
            data.copy(), class_map["vertebrae_pp"], voxel_volume=np.prod(spacing), voxel_spacing=spacing
        )
        spines.append({"shape": data.shape, "data": text(data), "found": text(found)})
    recorded = {"from": FROM, "blobs": list(blobs(rng)), "vertebrae": spines,
                "crops": list(crops(rng))}
    written = json.dumps(recorded, indent=1, default=int) + "\n"
    (folder / "total_cleaning.json").write_text(written)


if __name__ == "__main__":
    main()
