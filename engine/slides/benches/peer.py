"""The work of tiles.rs with tifffile and OpenSlide, on as many threads.

pip install tifffile imagecodecs zarr openslide-python openslide-bin
python peer.py FOLDER_OF_SLIDES [THREADS]
"""
import json
import pathlib
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openslide
import tifffile
import zarr

FILES = [
    "cmu-1-small-region.svs",
    "derived/cmu_pyramid_jpeg.tif",
    "tcga-cr-7395.svs",
    "derived/cmu_crop_pyramid_deflate.tif",
    "derived/cmu_crop_tiled_lzw.tif",
    "synthetic_10000x5000_zstd.tiff",
]
REGIONS = SIDE = 256
folder = pathlib.Path(sys.argv[1])
threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
pool = ThreadPoolExecutor(threads)


def places(width, height):
    state, out = 1, []
    for _ in range(2 * REGIONS):
        state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        out.append(state >> 33)
    return [(x % max(1, width - SIDE), y % max(1, height - SIDE)) for x, y in zip(out[::2], out[1::2])]


def measure(work, name, peer, least=5, most=20, seconds=3.0):
    work()
    times, start = [], time.perf_counter()
    while len(times) < least or (len(times) < most and time.perf_counter() - start < seconds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"bench": name, "peer": peer, "threads": threads, "ms": 1e3 * statistics.median(times), "min": 1e3 * min(times), "rounds": len(times)}), flush=True)


for name in FILES:
    path = folder / name
    with tifffile.TiffFile(path) as file:
        page = file.pages[0]
        height, width = page.shape[:2]

        def each():
            for _ in page.segments(maxworkers=threads):
                pass

        measure(each, f"tiles/each/{name}", "tifffile")
        measure(lambda: page.asarray(maxworkers=threads), f"tiles/level/{name}", "tifffile")

    where = places(width, height)

    def by_zarr():
        with tifffile.TiffFile(path) as file:
            store = file.series[0].aszarr()
            image = zarr.open(store, mode="r")
            image = image if isinstance(image, zarr.Array) else image["0"]
            list(pool.map(lambda p: np.asarray(image[p[1] : p[1] + SIDE, p[0] : p[0] + SIDE]), where))
            store.close()

    measure(by_zarr, f"tiles/regions/{name}", "tifffile+zarr", least=3, most=5)

    def by_openslide():
        slide = openslide.OpenSlide(path)
        list(pool.map(lambda p: np.asarray(slide.read_region(p, 0, (SIDE, SIDE)).convert("RGB")), where))
        slide.close()

    def each_by_openslide():
        slide = openslide.OpenSlide(path)
        w = int(slide.properties.get("openslide.level[0].tile-width", SIDE))
        h = int(slide.properties.get("openslide.level[0].tile-height", SIDE))
        corners = [(x, y) for y in range(0, height, h) for x in range(0, width, w)]
        list(pool.map(lambda p: np.asarray(slide.read_region(p, 0, (w, h)).convert("RGB")), corners))
        slide.close()

    if openslide.OpenSlide.detect_format(path):
        measure(each_by_openslide, f"tiles/each/{name}", "openslide")
        measure(by_openslide, f"tiles/regions/{name}", "openslide")
