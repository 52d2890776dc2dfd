"""Records a whole pass of TotalSegmentator's task `total`: its five models, small and with random weights.

    python3 tests/golden/record_totalsegmentator.py [FOLDER]

Needs TotalSegmentator 2.18 with nnunetv2 2.8. It reads lps_3mm/image.nii.gz of the folder and writes beside it pass/:
the models (`weights/`), the labels (`labels.nii.gz`), the statistics of both forms (`statistics.json`, and
`statistics_incomplete.json` with classes that the border cuts), and `ambiguous.nii.gz`: 1 where the two best logits of a
model lie within 2^-9 of each other.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
import torch

PATCH = [32, 32, 32]
SPACING = [1.5, 1.5, 1.5]
TRAINER = "nnUNetTrainerNoMirroring"
WORDS = ["conv_op", "norm_op", "dropout_op", "nonlin"]
NETWORK = "dynamic_network_architectures.architectures.unet.PlainConvUNet"
TIE = 2.0**-9


def plans(stages, features):
    from_norm = {"eps": 1e-5, "affine": True}
    kwargs = {
        "n_stages": stages,
        "features_per_stage": features,
        "conv_op": "torch.nn.modules.conv.Conv3d",
        "kernel_sizes": [[3, 3, 3]] * stages,
        "strides": [[1, 1, 1]] + [[2, 2, 2]] * (stages - 1),
        "n_conv_per_stage": [1] * stages,
        "n_conv_per_stage_decoder": [1] * (stages - 1),
        "conv_bias": True,
        "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d",
        "norm_op_kwargs": from_norm,
        "dropout_op": None,
        "dropout_op_kwargs": None,
        "nonlin": "torch.nn.LeakyReLU",
        "nonlin_kwargs": {"inplace": True},
    }
    function = "resample_data_or_seg_to_shape"
    resampling = lambda seg, order: {"is_seg": seg, "order": order, "order_z": 0, "force_separate_z": None}
    configuration = {
        "data_identifier": "nnUNetPlans_3d_fullres",
        "preprocessor_name": "DefaultPreprocessor",
        "batch_size": 2,
        "patch_size": PATCH,
        "median_image_size_in_voxels": [200.0] * 3,
        "spacing": SPACING,
        "normalization_schemes": ["CTNormalization"],
        "use_mask_for_norm": [False],
        "resampling_fn_data": function,
        "resampling_fn_seg": function,
        "resampling_fn_probabilities": function,
        "resampling_fn_data_kwargs": resampling(False, 3),
        "resampling_fn_seg_kwargs": resampling(True, 1),
        "resampling_fn_probabilities_kwargs": resampling(False, 1),
        "architecture": {"network_class_name": NETWORK, "arch_kwargs": kwargs, "_kw_requires_import": WORDS},
        "batch_dice": False,
    }
    intensities = {"mean": 100.0, "median": 90.0, "std": 120.0, "min": 0.0, "max": 2000.0}
    intensities |= {"percentile_00_5": 0.0, "percentile_99_5": 900.0}
    return {
        "dataset_name": "Dataset999_Small",
        "plans_name": "nnUNetPlans",
        "original_median_spacing_after_transp": SPACING,
        "original_median_shape_after_transp": [200] * 3,
        "image_reader_writer": "SimpleITKIO",
        "transpose_forward": [0, 1, 2],
        "transpose_backward": [0, 1, 2],
        "configurations": {"3d_fullres": configuration},
        "experiment_planner_used": "ExperimentPlanner",
        "label_manager": "LabelManager",
        "foreground_intensity_properties_per_channel": {"0": intensities},
    }


def make(weights, parts):
    """The five model folders. The background's bias is such that most classes have few voxels."""
    from nnunetv2.utilities.get_network_from_plans import get_network_from_plans

    for task, names in parts.items():
        plan = plans(2, [4, 8])
        folder = weights / f"Dataset{task}_Small" / f"{TRAINER}__nnUNetPlans__3d_fullres"
        (folder / "fold_0").mkdir(parents=True, exist_ok=True)
        labels = {"background": 0, **{name: number for number, name in names.items()}}
        dataset = {"channel_names": {"0": "CT"}, "labels": labels, "numTraining": 40, "file_ending": ".nii.gz"}
        (folder / "plans.json").write_text(json.dumps(plan, indent=1))
        (folder / "dataset.json").write_text(json.dumps(dataset, indent=1))
        torch.manual_seed(task)
        kwargs = plan["configurations"]["3d_fullres"]["architecture"]["arch_kwargs"]
        network = get_network_from_plans(NETWORK, kwargs, WORDS, 1, len(names) + 1, allow_init=True, deep_supervision=False)
        with torch.no_grad():
            bias = network.decoder.seg_layers[-1].bias
            bias.normal_(0, 0.3)
            bias[0] += 2.2
        state = {"network_weights": network.state_dict(), "trainer_name": TRAINER}
        state |= {"init_args": {"configuration": "3d_fullres", "fold": 0}, "inference_allowed_mirroring_axes": None}
        torch.save(state, folder / "fold_0" / "checkpoint_final.pth")


def ambiguous(image, weights, tasks):
    """1 where a model's two best logits at the voxel that TotalSegmentator takes are nearly equal."""
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
    from totalsegmentator.alignment import as_closest_canonical, undo_canonical
    from totalsegmentator.resampling import change_spacing

    image = nib.Nifti1Image(image.get_fdata(), image.affine)
    canonical = as_closest_canonical(image)
    low = change_spacing(canonical, SPACING, order=1, dtype=np.int32)
    ties = np.zeros(low.shape, bool)
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "case_0000.nii.gz")
        nib.save(low, path)
        for task in tasks:
            device = torch.device("cpu")
            p = nnUNetPredictor(0.8, True, False, False, device, allow_tqdm=False)
            folder = next((weights / f"Dataset{task}_Small").iterdir())
            p.initialize_from_trained_model_folder(str(folder), (0,), "checkpoint_final.pth")
            pre = p.configuration_manager.preprocessor_class(verbose=False)
            data, _, facts = pre.run_case([path], None, p.plans_manager, p.configuration_manager, p.dataset_json)
            logits = p.predict_logits_from_preprocessed_data(torch.from_numpy(data)).float().numpy()
            best = np.sort(logits, 0)[-2:]
            near = best[1] - best[0] <= TIE * np.maximum(1, np.abs(best[1]))
            box = tuple(slice(*bounds) for bounds in facts["bbox_used_for_cropping"])
            whole = np.zeros(low.shape[::-1], bool)
            whole[box] = near
            ties |= whole.transpose(2, 1, 0)
    low = nib.Nifti1Image(ties.astype(np.uint8), low.affine)
    back = change_spacing(low, canonical.header.get_zooms(), canonical.shape, dtype=np.uint8, force_affine=canonical.affine)
    return undo_canonical(back, image)


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "nnunet/totalsegmentator"
    out, image = root / "pass", root / "lps_3mm/image.nii.gz"
    weights = out / "weights"
    os.environ["TOTALSEG_WEIGHTS_PATH"] = str(weights)
    from totalsegmentator.config import setup_nnunet
    from totalsegmentator.map_to_binary import class_map_5_parts, map_taskid_to_partname_ct
    from totalsegmentator.nnunet import nnUNet_predict_image
    from totalsegmentator.statistics import get_basic_statistics

    tasks = [291, 292, 293, 294, 295]
    make(weights, {task: class_map_5_parts[map_taskid_to_partname_ct[task]] for task in tasks})
    setup_nnunet()
    options = dict(trainer=TRAINER, folds=[0], resample=1.5, task_name="total", device="cpu", quiet=True)
    labels, image, _ = nnUNet_predict_image(image, out / "labels.nii.gz", tasks, nr_threads_saving=1, **options)
    found = labels.get_fdata().astype(np.uint8)
    for name, whole in (("statistics", True), ("statistics_incomplete", False)):
        get_basic_statistics(found, image, out / f"{name}.json", True, "total", whole)
    nib.save(ambiguous(image, weights, tasks), out / "ambiguous.nii.gz")


if __name__ == "__main__":
    main()
