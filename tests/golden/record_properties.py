"""Records what nnU-Net keeps of an image beside its probabilities (the content of NAME.pkl).

    python3 tests/golden/record_properties.py [FOLDER]

Needs nnunetv2 2.8. FOLDER (tests/golden/nnunet) holds the prediction cases, and gets properties.json: a list of cases
with their reader and the properties that the preprocessor returns.
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"):
    os.environ.setdefault(name, os.devnull)

import numpy as np
from nnunetv2.preprocessing.preprocessors.default_preprocessor import DefaultPreprocessor
from nnunetv2.utilities.plans_handling.plans_handler import PlansManager

CASES = [
    ("ct_aniso_separate_z", "3d_fullres", None),
    ("ct_aniso_separate_z", "3d_fullres", "SimpleITKIOWithReorient"),
    ("mr_resenc_masked_2ch", "3d_fullres", None),
    ("mr_2d_transposed", "2d", None),
    ("mr_2d_transposed", "2d", "SimpleITKIOWithReorient"),
    ("smaller_than_patch_nib", "3d_fullres", None),
    ("smaller_than_patch_nib", "3d_fullres", "NibabelIOWithReorient"),
    ("png_rgb_2d", "2d", None),
]


def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "nnunet"
    recorded = []
    for case, configuration, reader in CASES:
        model = folder / case / "model"
        plans = json.loads((model / "plans.json").read_text())
        dataset = json.loads((model / "dataset.json").read_text())
        if reader:
            plans["image_reader_writer"] = reader
        manager = PlansManager(plans)
        files = sorted((folder / case / "input").iterdir())
        name = files[0].name.split("_0000")[0]
        files = [str(file) for file in files if file.name.startswith(name + "_")]
        preprocessor = DefaultPreprocessor(verbose=False)
        _, _, properties = preprocessor.run_case(files, None, manager, manager.get_configuration(configuration), dataset)
        reader = plans["image_reader_writer"]
        recorded.append({"case": case, "id": name, "reader": reader, "properties": plain(properties)})
    lines = ",\n  ".join(json.dumps(case) for case in recorded)
    text = f'{{"versions": {{"nnunetv2": "{version("nnunetv2")}"}}, "cases": [\n  {lines}\n]}}\n'
    (folder / "properties.json").write_text(text)
    print(f"{len(recorded)} cases")


if __name__ == "__main__":
    main()
