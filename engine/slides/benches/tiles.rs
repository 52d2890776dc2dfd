//! Reading tiles, regions and levels of real slides (`HEARTH_REAL_DATA`). The same work in Python:
//! `peer.py` in this folder.
//!
//! `RAYON_NUM_THREADS=2 cargo bench -p hearth-slides -p build-once --bench tiles`

use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hearth_slides::{Slide, SlideOptions, TileCache};
use rayon::prelude::*;

const FILES: [&str; 6] = [
    "cmu-1-small-region.svs",
    "derived/cmu_pyramid_jpeg.tif",
    "tcga-cr-7395.svs",
    "derived/cmu_crop_pyramid_deflate.tif",
    "derived/cmu_crop_tiled_lzw.tif",
    "synthetic_10000x5000_zstd.tiff",
];

/// Regions of one round.
const REGIONS: usize = 256;
/// Pixels of a region along both axes.
const SIDE: usize = 256;

fn folder() -> PathBuf {
    std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from)
        .join("wsi")
}

fn open(path: &Path, cache: u64) -> Slide {
    let options = SlideOptions { cache: Some(TileCache::new(cache)), ..SlideOptions::default() };
    Slide::open_with(path, &options).expect("a slide")
}

/// The same positions as in `peer.py`.
fn places(width: usize, height: usize) -> Vec<(i64, i64)> {
    let mut state = 1u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize % below.max(1)) as i64
    };
    (0..REGIONS).map(|_| (next(width.saturating_sub(SIDE)), next(height.saturating_sub(SIDE)))).collect()
}

fn tiles(c: &mut Criterion) {
    let mut group = c.benchmark_group("tiles");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for name in FILES {
        let path = folder().join(name);
        if !path.exists() {
            eprintln!("{} is missing", path.display());
            continue;
        }
        // Every tile of level 0 separately, nothing cached.
        let slide = open(&path, 0);
        let level = slide.levels()[0];
        let (w, h) = (level.tile_width, level.tile_height);
        let corners: Vec<(usize, usize)> =
            (0..level.height).step_by(h).flat_map(|y| (0..level.width).step_by(w).map(move |x| (x, y))).collect();
        group.bench_function(BenchmarkId::new("each", name), |b| {
            b.iter(|| {
                corners.par_iter().for_each(|(x, y)| {
                    slide.read_region(0, *x as i64, *y as i64, w, h).expect("a tile");
                });
            });
        });
        // The whole of level 0 as one image.
        group.bench_function(BenchmarkId::new("level", name), |b| {
            b.iter(|| slide.read_region(0, 0, 0, level.width, level.height).expect("the level"));
        });
        // Patches at random positions; slide and cache are new each round.
        let places = places(level.width, level.height);
        group.bench_function(BenchmarkId::new("regions", name), |b| {
            b.iter(|| {
                let slide = open(&path, 256 << 20);
                places.par_iter().for_each(|(x, y)| {
                    slide.read_region(0, *x, *y, SIDE, SIDE).expect("a region");
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, tiles);
criterion_main!(benches);
