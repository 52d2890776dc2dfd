"""The work of `read.rs` in Python: python peer.py FOLDER... (needs pydicom and NumPy)."""

import glob
import statistics
import sys
import time

import numpy
import pydicom


def read(folder):
    slices = [pydicom.dcmread(path) for path in glob.glob(folder + "/*")]
    cosines = numpy.array(slices[0].ImageOrientationPatient, float)
    normal = numpy.cross(cosines[:3], cosines[3:])
    slices.sort(key=lambda s: normal @ numpy.array(s.ImagePositionPatient, float))

    def values(s):
        slope, intercept = float(s.get("RescaleSlope", 1)), float(s.get("RescaleIntercept", 0))
        return s.pixel_array.astype(numpy.float32) * slope + intercept

    return numpy.ascontiguousarray(numpy.stack([values(s) for s in slices]).transpose(2, 1, 0))


for folder in sys.argv[1:]:
    read(folder)
    times = []
    for _ in range(15):
        start = time.perf_counter()
        shape = read(folder).shape
        times.append(time.perf_counter() - start)
    print(f"{folder} {shape}: median {statistics.median(times) * 1e3:.1f} ms, best {min(times) * 1e3:.1f} ms")
