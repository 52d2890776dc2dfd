"""Records tasks of TotalSegmentator with crops, modes and cleaning: small models that were trained on one image.

    python3 tests/golden/record_total_tasks.py [FOLDER]

Needs TotalSegmentator 2.18 with nnunetv2 2.8. Writes tasks/ into the folder: `image.nii.gz`, the models (`weights/`),
`cases.json`, and per case its labels and its statistics. A model is trained for a minute on balls of the image, so that
a rough model finds a region and labels have few ties.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
import torch

import record_totalsegmentator as five

NETWORKS = {
    "nnUNetPlans": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
    "nnUNetResEncUNetLPlans_8": "dynamic_network_architectures.architectures.unet.ResidualEncoderUNet",
}
SHAPE, SPACING = (40, 36, 32), (2.4, 2.4, 3.0)
# Centre and radius in mm, and the image's value.
BALLS = [((32, 42, 42), 23, 250), ((70, 52, 68), 13, 450), ((30, 38, 46), 10, 400), ((70, 22, 22), 11, 850)]
CASES = {
    "kidney_cysts": {"task": "kidney_cysts"},
    "body_fast": {"task": "body", "fast": True},
    "total_v3_fast": {"task": "total_v3", "fast": True},
    "total_v3_fast_small": {"task": "total_v3", "fast": True, "model_size": "small"},
    "total_v3_fast_subset": {"task": "total_v3", "fast": True, "roi_subset": ["liver", "aorta"]},
}


def image():
    """Axes that run to the left, to the back and up."""
    rng = np.random.default_rng(5)
    where = np.stack(np.meshgrid(*[np.arange(n) * s for n, s in zip(SHAPE, SPACING)], indexing="ij"), -1)
    values = rng.normal(0, 20, SHAPE)
    for centre, radius, value in BALLS:
        values[np.linalg.norm(where - np.array(centre), axis=-1) <= radius] += value
    affine = np.diag([-SPACING[0], -SPACING[1], SPACING[2], 1.0])
    affine[:3, 3] = [40, 30, -20]
    return nib.Nifti1Image(values.astype(np.int16), affine)


def model(weights, dataset, trainer, plans_name, voxels, names, of_ball):
    """A model whose label of each ball is given, trained on the image at its voxels."""
    from nnunetv2.utilities.get_network_from_plans import get_network_from_plans
    from totalsegmentator.alignment import as_closest_canonical
    from totalsegmentator.resampling import change_spacing

    plan = five.plans(2, [6, 12])
    configuration = plan["configurations"]["3d_fullres"]
    patch = {1.5: 32, 3.0: 24, 6.0: 16}[voxels]
    configuration |= {"spacing": [voxels] * 3, "patch_size": [patch] * 3}
    architecture = configuration["architecture"]
    architecture["network_class_name"] = NETWORKS[plans_name]
    kwargs = architecture["arch_kwargs"]
    if "Residual" in NETWORKS[plans_name]:
        kwargs["n_blocks_per_stage"] = kwargs.pop("n_conv_per_stage")
    else:
        # Without norms the networks tell balls apart by their values.
        kwargs |= {"norm_op": None, "norm_op_kwargs": None}
    plan |= {"dataset_name": dataset, "plans_name": plans_name}
    folder = weights / dataset / f"{trainer}__{plans_name}__3d_fullres"
    (folder / "fold_0").mkdir(parents=True, exist_ok=True)
    labels = {"background": 0, **{name: number for number, name in enumerate(names, 1)}}
    facts = {"channel_names": {"0": "CT"}, "labels": labels, "numTraining": 40, "file_ending": ".nii.gz"}
    (folder / "plans.json").write_text(json.dumps(plan, indent=1))
    (folder / "dataset.json").write_text(json.dumps(facts, indent=1))

    given = as_closest_canonical(image())
    wanted = np.zeros(SHAPE)
    inverse = np.linalg.inv(image().affine)
    where = nib.affines.apply_affine(inverse @ given.affine, np.indices(SHAPE).reshape(3, -1).T) * SPACING
    for (centre, radius, _), label in zip(BALLS, of_ball):
        if label is not None:
            wanted[(np.linalg.norm(where - np.array(centre), axis=-1) <= radius).reshape(SHAPE)] = label
    at = lambda values, order: change_spacing(nib.Nifti1Image(values, given.affine), [voxels] * 3, order=order).get_fdata()
    data, wanted = at(given.get_fdata(), 1), at(wanted, 0)
    properties = plan["foreground_intensity_properties_per_channel"]["0"]
    data = (np.clip(data, properties["percentile_00_5"], properties["percentile_99_5"]) - properties["mean"])
    data /= properties["std"]
    data, wanted = [torch.from_numpy(x.transpose(2, 1, 0).copy()) for x in (data, wanted)]
    pad = [n for size in reversed(data.shape) for n in (0, max(0, patch - size) + size % 2)]
    data = torch.nn.functional.pad(data.float(), pad)[None, None]
    wanted = torch.nn.functional.pad(wanted.long(), pad)[None]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    network = get_network_from_plans(
        NETWORKS[plans_name], kwargs, five.WORDS, 1, len(names) + 1, allow_init=True, deep_supervision=False
    )
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    inside = wanted[0].nonzero()
    # As many voxels of each class.
    of_label = lambda label: inside[wanted[0][tuple(inside.T)] == label]
    drawn = lambda all: all[torch.randperm(len(all))[:20]]
    inside = torch.cat([drawn(of_label(label)) for label in sorted(set(of_ball))])
    weight = torch.ones(len(names) + 1)
    weight[0] = 0.3
    for step in range(500):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / 500)
        # Around a voxel of a ball.
        at = inside[int(torch.randint(0, len(inside), ()))] - patch // 2 + torch.randint(-patch // 4, patch // 4, (3,))
        starts = [min(max(int(start), 0), size - patch) for start, size in zip(at, data.shape[2:])]
        z, y, x = [slice(start, start + patch) for start in starts]
        loss = torch.nn.functional.cross_entropy(network(data[:, :, z, y, x]), wanted[:, z, y, x], weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = {"network_weights": network.state_dict(), "trainer_name": trainer}
    state |= {"init_args": {"configuration": "3d_fullres", "fold": 0}, "inference_allowed_mirroring_axes": (0, 1, 2)}
    torch.save(state, folder / "fold_0" / "checkpoint_final.pth")


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "nnunet/totalsegmentator"
    out = root / "tasks"
    weights = out / "weights"
    weights.mkdir(parents=True, exist_ok=True)
    os.environ["TOTALSEG_WEIGHTS_PATH"] = str(weights)
    home = tempfile.TemporaryDirectory()
    os.environ["TOTALSEG_HOME_DIR"] = home.name
    from totalsegmentator.config import set_config_key, setup_totalseg
    from totalsegmentator.map_tasks_config import TASK_CONFIGS, TASK_ID_WEIGHTS_CONFIGS
    from totalsegmentator.map_to_binary import class_map
    from totalsegmentator.python_api import totalsegmentator

    setup_totalseg()
    set_config_key("send_usage_stats", False)
    set_config_key("statistics_disclaimer_shown", True)
    folder = lambda number: TASK_ID_WEIGHTS_CONFIGS[number]["foldername"]
    modes = lambda task, mode: TASK_CONFIGS[task]["sub_modes"][mode]["trainer"]
    total = list(class_map["total"].values())
    total_v3 = list(class_map["total_v3"].values())
    label = {name: number for number, name in enumerate(total, 1)}
    rough = [label["liver"], label["kidney_left"], label["liver"], label["aorta"]]
    model(weights, folder(298), modes("total", "fastest"), "nnUNetPlans", 6.0, total, rough)
    kidneys = [*class_map["kidney_cysts"].values(), *class_map["kidney_cysts_auxiliary"].values()]
    model(weights, folder(789), TASK_CONFIGS["kidney_cysts"]["trainer"], "nnUNetPlans", 1.5, kidneys, [1, 3, 2, 4])
    body = list(class_map["body"].values())
    model(weights, folder(300), modes("body", "fast"), "nnUNetPlans", 6.0, body, [1, 2, 1, 1])
    for plans_name in NETWORKS:
        balls = [label["liver"], label["spleen"], label["vertebrae_S1"], label["aorta"]]
        model(weights, folder(836), modes("total_v3", "fast"), plans_name, 3.0, total_v3, balls)
    nib.save(image(), out / "image.nii.gz")
    for name, options in CASES.items():
        _, statistics = totalsegmentator(
            out / "image.nii.gz", out / f"{name}.nii.gz", ml=True, device="cpu", quiet=True, statistics=True,
            statistics_exclude_masks_at_border=False, nr_thr_saving=1, **options
        )
        (out / f"{name}.json").write_text(json.dumps(statistics, indent=1))
        (out / "statistics.json").unlink()
    (out / "cases.json").write_text(json.dumps(CASES, indent=1))


if __name__ == "__main__":
    main()
