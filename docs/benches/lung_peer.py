"""MONAI's side of the recipe demo-lung: a tumour in generated CT, read as DICOM, a small UNet.

    hearth data phantom lung --cases 24 --out chests
    python docs/benches/lung_peer.py chests
    hearth train demo-lung --data chests --out run
    hearth predict run -i chests/LUNG1-021 chests/LUNG1-022 chests/LUNG1-023 chests/LUNG1-024 -o labels

The last four patients validate and are predicted, each into a label map on its own grid. The line of JSON is as that of brats_peer.py,
for the region GTV-1. MONAI reads no RTSTRUCT: before the clock starts, pydicom and scikit-image fill each contour into a label map.

Other than in the recipe: the crops' random numbers, the initial weights, and the order of cases.
"""
import tempfile
from pathlib import Path

import nibabel
import numpy as np
import peer
import pydicom
import torch
from monai.losses import DiceCELoss
from monai.networks.nets import UNet
from monai.transforms import (
    EnsureChannelFirstd, FgBgToIndicesd, LoadImage, LoadImaged, Orientationd, RandCropByPosNegLabeld, RandFlipd, ScaleIntensityRanged,
    Spacingd,
)
from skimage.draw import polygon2mask

KEYS = ["image", "label"]


def drawn(structures, image):
    """The voxels within the contours of the GTV, whatever its spelling, on the grid of an image."""
    names = {roi.ROINumber: roi.ROIName for roi in structures.StructureSetROISequence}
    grid = np.zeros(image.shape, np.uint8)
    from_patient = np.linalg.inv(np.asarray(image.affine, float))
    for roi in structures.ROIContourSequence:
        for contour in roi.ContourSequence if names[roi.ReferencedROINumber].upper().startswith("GTV") else []:
            # DICOM's patient coordinates are LPS.
            points = np.reshape(np.asarray(contour.ContourData, float), (-1, 3)) * [-1, -1, 1]
            voxels = points @ from_patient[:3, :3].T + from_patient[:3, 3]
            grid[..., round(voxels[0, 2])] ^= polygon2mask(grid.shape[:2], voxels[:, :2]).astype(np.uint8)
    return grid


def listed(folder, labels):
    """Series of CT, with label maps that are written into a folder."""
    cases = []
    for patient in sorted(path for path in folder.iterdir() if path.is_dir()):
        series = {}
        for file in patient.rglob("*.dcm"):
            series.setdefault(pydicom.dcmread(file, stop_before_pixels=True).Modality, []).append(file)
        case = {"name": patient.name, "image": str(series["CT"][0].parent)}
        if labels is not None:
            image = LoadImage(reader="PydicomReader")(case["image"])
            case["label"] = str(labels / f"{patient.name}.nii.gz")
            nibabel.save(nibabel.Nifti1Image(drawn(pydicom.dcmread(series["RTSTRUCT"][0]), image), np.asarray(image.affine)), case["label"])
        cases.append(case)
    return cases


def fixed(keys):
    return [
        LoadImaged("image", reader="PydicomReader"),
        *([LoadImaged("label")] if "label" in keys else []),
        EnsureChannelFirstd(keys),
        Orientationd(keys, axcodes="RAS", labels=None),
        Spacingd(keys, pixdim=(3.0, 3.0, 4.0), mode=["bilinear", "nearest"][: len(keys)]),
        ScaleIntensityRanged("image", a_min=-1000, a_max=400, b_min=0, b_max=1, clip=True),
    ]


FILL = [FgBgToIndicesd("label", image_key="image")]
RANDOM = [
    RandCropByPosNegLabeld(
        KEYS, label_key="label", spatial_size=[48, 48, 32], pos=1, neg=2, num_samples=4, fg_indices_key="label_fg_indices",
        bg_indices_key="label_bg_indices",
    ),
    RandFlipd(KEYS, spatial_axis=0, prob=0.5),
    RandFlipd(KEYS, spatial_axis=1, prob=0.5),
]


def network():
    return UNet(spatial_dims=3, in_channels=1, out_channels=1, channels=(12, 24, 48, 96), strides=(2, 2, 2), num_res_units=2, norm="batch")


def train(args):
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=3e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=140)
    loss = DiceCELoss(sigmoid=True, squared_pred=True, batch=True)
    with tempfile.TemporaryDirectory() as labels:
        cases = listed(args.data, Path(labels))
        return peer.train_regions(
            args, cases[:-4], cases[-4:], fixed(KEYS), RANDOM, net, loss, optimizer, schedule, ["GTV-1"], "GTV-1", FILL, (96, 96, 64)
        )


def predict(args):
    return peer.predict_regions(args, listed(args.data, None)[-4:], fixed(["image"]), network(), [], (96, 96, 64))


if __name__ == "__main__":
    peer.run("lung", peer.arguments(__doc__, epochs=140, interval=10), train, predict)
