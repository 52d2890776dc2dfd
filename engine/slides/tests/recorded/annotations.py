"""Records what scikit-image says of points in polygons: `python annotations.py > annotations.json`."""
import json

import numpy as np
import skimage
from skimage.measure import points_in_poly

rng = np.random.default_rng(7)
cases = []
for scale, corner in [((1.0, 1.0), (0.0, 0.0)), ((2.5, 2.4), (31.7, 12.1)), ((4.0, 4.0), (-9.0, 5.0))]:
    rings = []
    for _ in range(3):
        n = int(rng.integers(3, 40))
        # Not simple: edges may cross each other.
        rings.append((rng.uniform(0, 150, (n, 2))).round(3).tolist())
    w, h = 53, 47
    x = corner[0] + (np.arange(w) + 0.5) * scale[0]
    y = corner[1] + (np.arange(h) + 0.5) * scale[1]
    centres = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)
    inside = np.zeros(len(centres), bool)
    for ring in rings:
        inside ^= points_in_poly(centres, np.array(ring))
    rows = ["".join("#" if v else "." for v in row) for row in inside.reshape(h, w)]
    cases.append({"corner": corner, "scale": scale, "width": w, "height": h, "rings": rings, "mask": rows})
print(json.dumps({"scikit-image": skimage.__version__, "cases": cases}))
