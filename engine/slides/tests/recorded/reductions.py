"""Records how Pillow resizes parts of the files beside it, BILINEAR: `python reductions.py > reductions.json`.

A row of text is a row of pixels. Pillow has one channel of 32 bits, so other types go through these, channel by channel.
"""
import json
from pathlib import Path

import numpy as np
import PIL
import tifffile
from PIL import Image

FILES = Path(__file__).parent.parent / "files"
# Pixels of the file per pixel, the corner in pixels of the file, and the size. Files have 50 x 40 pixels.
PARTS = [
    (1.5, (0.0, 0.0), (15, 9)),
    (1.25, (30.0, 30.0), (16, 8)),
    (2.7, (4.25, 3.5), (14, 5)),
    (7.9, (0.6, 1.1), (6, 4)),
    (0.6, (10.3, 9.8), (9, 5)),
]


def resized(values, location, scale, size):
    box = (*location, location[0] + scale * size[0], location[1] + scale * size[1])
    if values.ndim == 3 and values.shape[2] == 4 and values.dtype == np.uint8:
        image = Image.fromarray(values, "RGBA")
        return np.asarray(image.resize(size, Image.Resampling.BILINEAR, box=box)).astype(float)
    channels = []
    for channel in np.moveaxis(np.atleast_3d(values), 2, 0):
        mode = {"uint8": "L", "int32": "I"}.get(values.dtype.name, "F")
        image = Image.fromarray(np.ascontiguousarray(channel if mode != "F" else channel.astype(np.float32)))
        assert image.mode == mode
        channels.append(np.asarray(image.resize(size, Image.Resampling.BILINEAR, box=box)).astype(float))
    return np.stack(channels, -1)


cases = []
for name in [
    "none_strips.tif", "packbits_rgba.tif", "five_channels.tif", "i8_strips.tif", "lzw_u16_big_endian.tif",
    "zstd_i32.tif", "u32_bigtiff_big_endian.tif", "zstd_f32.tif", "deflate_f64_big_endian.tif",
]:
    values = tifffile.imread(FILES / name)
    for scale, location, size in PARTS:
        got = resized(values, location, scale, size)
        rows = [" ".join(f"{v:.9g}" for v in row.ravel()) for row in got]
        cases.append({"file": name, "scale": scale, "location": location, "size": size, "rows": rows})
print(json.dumps({"Pillow": PIL.__version__, "cases": cases}))
