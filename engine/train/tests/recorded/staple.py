"""Records what SimpleITK's STAPLE says of generated raters: python3 staple.py > staple.json"""
import json

import numpy as np
import SimpleITK as sitk

cases = []
rng = np.random.RandomState(3)
truth = np.zeros((8, 10, 12), np.uint8)
truth[2:6, 3:8, 4:9] = 1
for rates in [
    [(0.95, 0.98), (0.9, 0.95), (0.8, 0.99)],
    [(0.99, 0.99), (0.6, 0.9), (0.7, 0.7), (0.85, 0.95), (0.9, 0.9)],
    [(0.9, 0.9), (0.9, 0.9)],
]:
    raters = [np.where(truth == 1, rng.rand(*truth.shape) < p, rng.rand(*truth.shape) > q).astype(np.uint8) for p, q in rates]
    # Raters that differ in a few voxels only, as networks do, and one that marks too much.
    shifted = [truth, np.roll(truth, 1, 0), np.maximum(truth, np.roll(truth, 2, 1))]
    for members in [raters, raters[:1] + shifted]:
        staple = sitk.STAPLEImageFilter()
        staple.SetForegroundValue(1)
        found = sitk.GetArrayFromImage(staple.Execute([sitk.GetImageFromArray(m) for m in members]))
        cases.append({
            "raters": [m.reshape(-1).tolist() for m in members],
            "probability": found.reshape(-1).tolist(),
            "sensitivity": list(staple.GetSensitivity()),
            "specificity": list(staple.GetSpecificity()),
            "passes": staple.GetElapsedIterations(),
        })
print(json.dumps({"made_with": f"SimpleITK {sitk.Version().VersionString()}", "cases": cases}))
