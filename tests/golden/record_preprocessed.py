"""Records a small folder of nnUNet_preprocessed beside the raw data set that it was made of.

    python3 tests/golden/record_preprocessed.py [FOLDER]

Needs nnunetv2 2.8 and nibabel. It writes FOLDER (tests/golden/nnunet/preprocessed): `raw/Dataset011_Blobs` and
`preprocessed/Dataset011_Blobs` with plans, data set, splits, and the arrays of nnU-Net's own preprocessor as its
nnUNetDatasetNumpy writes them (.npz and .pkl), and the same arrays as nnUNetDatasetBlosc2 does (.b2nd) in a folder of
their own: the first case in chunks with edges that are filled up, the others as the preprocessor chooses them.
"""

import json
import os
import shutil
import sys
from pathlib import Path

for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
    os.environ.setdefault(name, os.devnull)

import nibabel as nib
import numpy as np
from nnunetv2.preprocessing.preprocessors.default_preprocessor import DefaultPreprocessor
from nnunetv2.training.dataloading.nnunet_dataset import comp_blosc2_params, nnUNetDatasetBlosc2, nnUNetDatasetNumpy
from nnunetv2.utilities.plans_handling.plans_handler import PlansManager

CASES = 4
SHAPE = (18, 20, 10)


def volumes(case):
    """Two channels with a margin of zeros, and labels 1 and 2, in the axes of the file."""
    random = np.random.RandomState(case)
    x, y, z = np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij")
    inside = (x - 9) ** 2 + (y - 10) ** 2 < 72
    far = (x - 7 - case) ** 2 + (y - 11 + case) ** 2 + (2.5 * (z - 5)) ** 2
    labels = np.where(far < 9, 2, np.where(far < 36, 1, 0)) * inside
    first = (100 + 60 * (labels > 0) + random.normal(0, 8, SHAPE)) * inside
    second = (40 - 15 * (labels == 2) + random.normal(0, 4, SHAPE)) * inside
    return np.round(first), np.round(second), labels


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "nnunet/preprocessed"
    shutil.rmtree(out, ignore_errors=True)
    raw, made = out / "raw/Dataset011_Blobs", out / "preprocessed/Dataset011_Blobs"
    for folder in (raw / "imagesTr", raw / "labelsTr", made / "gt_segmentations"):
        folder.mkdir(parents=True)
    dataset = {
        "channel_names": {"0": "T1", "1": "T2"},
        "labels": {"background": 0, "blob": 1, "core": 2},
        "numTraining": CASES,
        "file_ending": ".nii.gz",
    }
    names = [f"blob_{case}" for case in range(CASES)]
    affine = np.diag([1.0, 1.0, 2.5, 1.0])
    for case, name in enumerate(names):
        first, second, labels = volumes(case)
        for channel, values in enumerate((first, second)):
            nib.save(nib.Nifti1Image(values.astype(np.int16), affine), raw / f"imagesTr/{name}_{channel:04d}.nii.gz")
        nib.save(nib.Nifti1Image(labels.astype(np.uint8), affine), raw / f"labelsTr/{name}.nii.gz")
        shutil.copy(raw / f"labelsTr/{name}.nii.gz", made / "gt_segmentations")
    keys = {
        "data_identifier": "nnUNetPlans_3d_fullres",
        "preprocessor_name": "DefaultPreprocessor",
        "batch_size": 2,
        "patch_size": [8, 16, 16],
        "median_image_size_in_voxels": [10.0, 14.0, 14.0],
        "spacing": [2.5, 1.25, 1.25],
        "normalization_schemes": ["ZScoreNormalization"] * 2,
        "use_mask_for_norm": [True, True],
        "architecture": {
            "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
            "arch_kwargs": {
                "n_stages": 2,
                "features_per_stage": [8, 16],
                "conv_op": "torch.nn.modules.conv.Conv3d",
                "kernel_sizes": [[3, 3, 3], [3, 3, 3]],
                "strides": [[1, 1, 1], [2, 2, 2]],
                "n_conv_per_stage": [2, 2],
                "n_conv_per_stage_decoder": [2],
                "conv_bias": True,
                "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d",
                "norm_op_kwargs": {"eps": 1e-05, "affine": True},
                "dropout_op": None,
                "dropout_op_kwargs": None,
                "nonlin": "torch.nn.LeakyReLU",
                "nonlin_kwargs": {"inplace": True},
            },
            "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"],
        },
        "batch_dice": False,
    }
    for kind, order, is_seg in (("data", 3, False), ("seg", 1, True), ("probabilities", 1, False)):
        keys[f"resampling_fn_{kind}"] = "resample_data_or_seg_to_shape"
        keys[f"resampling_fn_{kind}_kwargs"] = {
            "is_seg": is_seg, "order": order, "order_z": 0, "force_separate_z": None,
        }
    statistics = {"max": 1.0, "mean": 0.5, "median": 0.5, "min": 0.0, "percentile_00_5": 0.0, "percentile_99_5": 1.0, "std": 1.0}
    plans = {
        "dataset_name": "Dataset011_Blobs",
        "plans_name": "nnUNetPlans",
        "original_median_spacing_after_transp": [2.5, 1.0, 1.0],
        "original_median_shape_after_transp": [10, 17, 17],
        "image_reader_writer": "SimpleITKIO",
        "transpose_forward": [0, 1, 2],
        "transpose_backward": [0, 1, 2],
        "configurations": {"3d_fullres": keys},
        "experiment_planner_used": "ExperimentPlanner",
        "label_manager": "LabelManager",
        "foreground_intensity_properties_per_channel": {"0": statistics, "1": statistics},
    }
    splits = [{"train": names[:2], "val": names[2:]}, {"train": names[2:], "val": names[:2]}]
    for path, value in (
        (raw / "dataset.json", dataset), (made / "dataset.json", dataset), (made / "nnUNetPlans.json", plans),
        (made / "splits_final.json", splits),
    ):
        path.write_text(json.dumps(value, indent=1) + "\n")
    manager = PlansManager(plans)
    arrays, packed = made / "nnUNetPlans_3d_fullres", made / "of_blosc2"
    arrays.mkdir()
    packed.mkdir()
    for name in names:
        images = [str(raw / f"imagesTr/{name}_{channel:04d}.nii.gz") for channel in range(2)]
        preprocessor = DefaultPreprocessor(verbose=False)
        data, seg, properties = preprocessor.run_case(
            images, str(raw / f"labelsTr/{name}.nii.gz"), manager, manager.get_configuration("3d_fullres"), dataset
        )
        data, seg = data.astype(np.float32), seg.astype(np.int8)
        # Where patches are drawn is computed from the labels.
        properties.pop("class_locations", None)
        nnUNetDatasetNumpy.save_case(data, seg, properties, str(arrays / name))
        if name == names[0]:
            size = (1, *data.shape[1:])
            shapes = dict(chunks=(2, 8, 12, 14), blocks=(1, 4, 8, 8), chunks_seg=size, blocks_seg=(1, 4, 8, 8))
        else:
            # As DefaultPreprocessor.run_case_save does, whose labels are int16.
            seg, patch = seg.astype(np.int16), tuple(keys["patch_size"])
            blocks, chunks = comp_blosc2_params(data.shape, patch, data.itemsize)
            blocks_seg, chunks_seg = comp_blosc2_params(seg.shape, patch, seg.itemsize)
            shapes = dict(chunks=chunks, blocks=blocks, chunks_seg=chunks_seg, blocks_seg=blocks_seg)
        nnUNetDatasetBlosc2.save_case(data, seg, properties, str(packed / name), **shapes)
        print(name, data.shape, seg.shape, np.unique(seg))


if __name__ == "__main__":
    main()
