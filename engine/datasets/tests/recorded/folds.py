"""Records what scikit-learn and MONAI say of folds and test images: python3 folds.py > folds.json"""
import json

import monai
import numpy as np
import sklearn
from monai.data import partition_dataset
from monai.data.synthetic import create_test_image_3d
from sklearn import model_selection as ms

cases = []
rng = np.random.RandomState(7)
for n, k in [(10, 5), (11, 3), (23, 5), (60, 5), (7, 7)]:
    classes = rng.randint(0, 3, n).tolist()
    classes[:k] = [0] * k
    words = [["no", "yes", "maybe"][c] for c in classes]
    groups = [f"p{g}" for g in rng.randint(0, max(k, n // 2), n)]
    groups[:k] = [f"p{g}" for g in range(k)]
    for seed in [None, 0, 12345]:
        options = {"n_splits": k, "shuffle": seed is not None, "random_state": seed}
        test = lambda name, y=None, g=None: [
            [int(i) for i in t] for _, t in getattr(ms, name)(**options).split(np.zeros(n), y, g)
        ]
        cases.append({
            "folds": k, "seed": seed, "classes": words, "groups": groups,
            "KFold": test("KFold"),
            "StratifiedKFold": test("StratifiedKFold", words),
            "GroupKFold": test("GroupKFold", None, groups),
            "StratifiedGroupKFold": test("StratifiedGroupKFold", words, groups),
            "partition_dataset": partition_dataset(list(range(n)), num_partitions=k, shuffle=seed is not None, seed=seed or 0),
        })

spheres = []
for options in [
    {"size": 128, "rad_max": 30, "rad_min": 5, "noise_max": 0.0, "num_seg_classes": 1},
    {"size": 32, "rad_max": 7, "rad_min": 1, "noise_max": 0.6, "num_seg_classes": 1},
    {"size": 32, "rad_max": 7, "rad_min": 1, "noise_max": 0.2, "num_seg_classes": 3},
]:
    made = dict(options)
    size = made.pop("size")
    state = np.random.RandomState(0)
    # The second of a generator, to see that it advances.
    for _ in range(2):
        image, label = create_test_image_3d(size, size, size, random_state=state, **made)
    image, label = np.asarray(image, np.float32), np.asarray(label, np.float32)
    spheres.append({**options, "image_sum": float(image.astype(np.float64).sum()), "label_sum": float(label.sum()),
                    "some": image.reshape(-1)[:: size * size * size // 97].tolist(), "labels": label.reshape(-1)[:: size * size * size // 97].tolist()})

notebook = partition_dataset(list(range(50)), num_partitions=5, shuffle=True, seed=12345)
made_with = f"scikit-learn {sklearn.__version__}, MONAI {monai.__version__}, numpy {np.__version__}"
print(json.dumps({"made_with": made_with, "cases": cases, "spheres": spheres, "notebook": notebook}))
