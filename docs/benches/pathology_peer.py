"""MONAI's side of the recipe demo-pathology: patches of generated slides with tumours, a small ResNet.

    hearth data phantom pathology --cases 24 --size 2048 --out slides
    python docs/benches/pathology_peer.py slides --only draw         # slides/regions.csv, for both
    python docs/benches/pathology_peer.py slides
    hearth train demo-pathology --data slides/regions.csv --out run
    hearth predict run -i slides/tumor_00.tif ... -o maps            # the slides of regions.csv that validate

Half of the slides validate by their regions, and their maps are predicted. The line of JSON is as that of brats_peer.py, without caches;
the metric is the accuracy of patches, --target 0.95. predict_case_seconds are those from a slide's file to its map, NAME.npy, and its
detections, NAME.json; tiles_per_second counts the patches of all maps and all of that time. The FROC of the maps:

    hearth metrics froc --maps OUT --truth slides --scale 32 --spacing 1 --box-size 16

The regions are drawn before the clock starts: 60 of each slide, centred on tissue, half of those of slides with tumours in a tumour.
Slides are read by cuCIM, MONAI's default, or by OpenSlide where that is missing (much slower: MONAI opens the slide again for each
patch).

Other than in the recipe: random numbers, initial weights and the order of regions; black in place of white beyond a slide's edge; no
picture and no pyramid of a map.
"""
import csv
import json
import random
import statistics
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

try:
    from cucim.clara import CuImage

    READER = "cuCIM"
    # Without a GPU its first slide never opens if PyTorch's libraries are loaded by then.
    for first in [file for folder in sys.argv[1:] for file in Path(folder).glob("*.tif")][:1]:
        CuImage(str(first))
except ImportError:
    READER = "OpenSlide"

import numpy as np
import peer
import torch
from monai.apps.pathology.utils import PathologyProbNMS
from monai.data import PatchWSIDataset, ThreadDataLoader, WSIReader
from monai.networks.nets import ResNet
from monai.optimizers import Novograd
from monai.transforms import (
    CastToType, Compose, EnsureTyped, ForegroundMask, GridSplitd, Lambdad, RandFlip, RandRotate90, ScaleIntensityRange, TorchVision,
)
from skimage.color import rgb2hsv
from skimage.draw import polygon2mask
from skimage.filters import threshold_otsu
from skimage.morphology import remove_small_holes, remove_small_objects

REGION, GRID, PATCH, STRIDE = 192, 3, 64, 32
LABELS = [f"label_{cell}" for cell in range(GRID * GRID)]


def rings(slide):
    """The rings of a slide's annotations, each a list of x and y."""
    asap, geojson = slide.with_suffix(".xml"), slide.with_suffix(".geojson")
    if asap.is_file():
        for shape in ElementTree.parse(asap).iter("Annotation"):
            yield [(float(point.get("X")), float(point.get("Y"))) for point in shape.iter("Coordinate")]
    if geojson.is_file():
        for feature in json.loads(geojson.read_text())["features"]:
            yield from feature["geometry"]["coordinates"]


def draw(args):
    """Writes the list of regions, a line each, that both programs train and validate with."""
    chance, reader, rows = random.Random(0), WSIReader(READER), []
    slides = sorted(args.data.glob("*.tif"))
    groups = [[slide for slide in slides if any(rings(slide)) == wanted] for wanted in (True, False)]
    held = {slide for group in groups for slide in chance.sample(group, len(group) // 2)}
    for slide in slides:
        opened = reader.read(str(slide))
        (height, width), (pixels, _) = reader.get_size(opened, 0), reader.get_data(opened, level=1)
        saturation = rgb2hsv(pixels, channel_axis=0)[1]
        tissue = remove_small_objects(saturation > threshold_otsu(saturation), max_size=15)
        tissue = remove_small_holes(tissue, max_size=64)
        marked = np.zeros((height, width), bool)
        for ring in rings(slide):
            marked ^= polygon2mask(marked.shape, np.asarray(ring)[:, ::-1] - 0.5)
        inside, outside = (np.argwhere(tissue & (marked[1::2, 1::2] == wanted)) for wanted in (True, False))
        for index in range(60):
            places = inside if len(inside) and index < 30 else outside
            y, x = (int(at * 2 + chance.randrange(2)) for at in places[chance.randrange(len(places))])
            cells = [int((cell + 0.5) * REGION / GRID) - REGION // 2 for cell in range(GRID)]
            spots = [(y + down, x + right) for down in cells for right in cells]
            labels = [int(0 <= at[0] < height and 0 <= at[1] < width and marked[at]) for at in spots]
            rows.append([slide.name, x, y, *labels, "validation" if slide in held else "train"])
    with (args.data / "regions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["image", "x", "y", *LABELS, "split"], *rows])


def regions(args, split):
    if not (args.data / "regions.csv").is_file():
        draw(args)
    with (args.data / "regions.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == split]
    return [
        {"image": str(args.data / row["image"]), "location": [int(row["y"]), int(row["x"])], "label": [int(row[key]) for key in LABELS]}
        for row in rows
    ]


def network():
    return ResNet("basic", [1, 1, 1, 1], [8, 16, 32, 64], spatial_dims=2, n_input_channels=3, conv1_t_size=5, conv1_t_stride=2, num_classes=1)


PATCHES = Compose([
    EnsureTyped(["image", "label"], track_meta=False),
    Lambdad("label", lambda label: label.reshape(1, GRID, GRID)),
    GridSplitd(["image", "label"], grid=(GRID, GRID), size={"image": (PATCH, PATCH), "label": (1, 1)}),
])
SCALE = Compose([CastToType(torch.float32), ScaleIntensityRange(a_min=0, a_max=255, b_min=-1, b_max=1)])
# Of whole batches, whose patches take the place of channels: each draw is theirs together.
AUGMENT = Compose([
    TorchVision("ColorJitter", brightness=0.25, contrast=0.25, saturation=0.25, hue=0.04),
    RandFlip(prob=0.5, spatial_axis=-1),
    RandRotate90(prob=0.5, max_k=3, spatial_axes=(-2, -1)),
    SCALE,
])


def train(args):
    parts = [regions(args, split) for split in ("train", "validation")]
    loaders = [
        ThreadDataLoader(PatchWSIDataset(part, REGION, 0, PATCHES, reader=READER), num_workers=0, batch_size=8, shuffle=shuffle)
        for part, shuffle in zip(parts, (True, False))
    ]
    net, loss = network(), torch.nn.BCEWithLogitsLoss()
    optimizer = Novograd(net.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)

    def step():
        net.train()
        for batch in loaders[0]:
            optimizer.zero_grad(set_to_none=True)
            value = loss(net(AUGMENT(batch["image"])), batch["label"].flatten(1))
            value.backward()
            optimizer.step()
        schedule.step()
        return value.item()

    def validate():
        net.eval()
        right = []
        with torch.no_grad():
            for batch in loaders[1]:
                found = torch.sigmoid(net(SCALE(batch["image"]))) >= 0.5
                right.append(found == batch["label"].flatten(1).bool())
        return {"metric": torch.cat(right).double().mean().item()}

    progress = peer.Progress(args, net, "metric")
    for number in range(1, args.epochs + 1):
        progress.epoch(number, step, validate)
    return progress.figures()


def tissue(reader, slide):
    """The foreground of a slide with a pixel for every STRIDE: MONAI's rule, as MaskedPatchWSIDataset has it, for slides without a level
    of this size. The smallest level is reduced by the mean of blocks."""
    opened = reader.read(str(slide))
    level = reader.get_level_count(opened) - 1
    pixels, _ = reader.get_data(opened, level=level)
    by = STRIDE // round(reader.get_downsample_ratio(opened, level))
    channels, height, width = pixels.shape
    blocks = pixels[:, : height // by * by, : width // by * by].reshape(channels, height // by, by, width // by, by)
    reduced = np.round(blocks.mean((2, 4))).astype(np.uint8)
    return np.squeeze(np.asarray(ForegroundMask(hsv_threshold={"S": "otsu"})(reduced))).astype(bool)


def predict(args):
    net = network()
    net.load_state_dict(torch.load(args.weights, weights_only=True))
    net.eval()
    args.out.mkdir(parents=True, exist_ok=True)
    reader, peaks = WSIReader(READER), PathologyProbNMS(prob_threshold=0.5, box_size=16)
    each, tiles = [], 0
    for slide in sorted({Path(region["image"]) for region in regions(args, "validation")}):
        start = time.perf_counter()
        mask = tissue(reader, slide)
        places = np.argwhere(mask)
        corners = np.round((places + 0.5) * STRIDE - PATCH / 2).astype(int).tolist()
        data = [{"image": str(slide), "location": corner} for corner in corners]
        data = PatchWSIDataset(data, PATCH, 0, EnsureTyped("image", track_meta=False), False, False, reader=READER)
        with torch.no_grad():
            batches = ThreadDataLoader(data, num_workers=0, batch_size=128)
            found = torch.cat([torch.sigmoid(net(SCALE(batch["image"]))) for batch in batches])
        values = np.zeros(mask.shape)
        values[tuple(places.T)] = found[:, 0].numpy()
        np.save(args.out / f"{slide.stem}.npy", values)
        spots = [[float(prob), *((np.asarray(at) + 0.5) * STRIDE).tolist()] for prob, *at in peaks(values.copy())]
        (args.out / f"{slide.stem}.json").write_text(json.dumps(spots))
        each.append(time.perf_counter() - start)
        tiles += len(places)
    return {
        "predict_cases": len(each), "predict_case_seconds": statistics.median(each), "predict_seconds": sum(each), "predict_tiles": tiles,
        "predict_tiles_per_second": tiles / sum(each), "predict_reader": READER,
    }


if __name__ == "__main__":
    args = peer.arguments(__doc__, epochs=6, interval=1, target=0.95, steps=["draw"])
    if args.only == "draw":
        draw(args)
    else:
        peer.run("pathology", args, train, predict)
