//! Slides of vendors that are read through OpenSlide: a Trestle slide, which this crate refuses
//! without OpenSlide.

mod common;

use common::{PageSpec, Storage, Values, page_of, tiff};
use hearth_slides::{Background, Slide, SlideOptions, TileCache};
use tempfile::TempDir;

fn shade(x: f64, y: f64, c: usize) -> u32 {
    (x * 0.6 + y * 0.4 + c as f64 * 20.0).round() as u32
}

fn level(width: usize, height: usize, factor: f64) -> PageSpec {
    let at = |i: usize| (i as f64 + 0.5) * factor - 0.5;
    let storage = Storage { width, height, compression: 8, tile: Some((32, 16)), ..Storage::default() };
    page_of(&storage, false, |x, y, c| shade(at(x), at(y), c))
}

/// The same pages as a Trestle slide and as a plain TIFF.
fn slides(dir: &TempDir) -> [Slide; 2] {
    let mark = |page: PageSpec| {
        let page = page.with(270, Values::Text("Background Color=FFFFFF;White Balance=0;Objective Power=20".into()));
        page.with(305, Values::Text("MedScan".into()))
    };
    let plain = || vec![level(300, 200, 1.0), level(150, 100, 2.0)];
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("trestle.tif"), tiff(&plain().into_iter().map(mark).collect::<Vec<_>>())).expect("written");
    std::fs::write(path("plain.tif"), tiff(&plain())).expect("written");
    ["trestle.tif", "plain.tif"].map(|name| {
        let cache = Some(TileCache::new(16 << 20));
        let options = SlideOptions { background: Background::White, cache, ..SlideOptions::default() };
        Slide::open_with(path(name), &options).expect("a slide")
    })
}

#[test]
fn a_slide_of_another_vendor_is_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let [foreign, own] = slides(&dir);
    assert_eq!(foreign.vendor(), "trestle");
    let sizes = |slide: &Slide| slide.levels().iter().map(|l| (l.width, l.height)).collect::<Vec<_>>();
    assert_eq!(sizes(&foreign), [(300, 200), (150, 100)]);
    assert_eq!(foreign.properties()["openslide.vendor"], "trestle", "{:?}", foreign.properties());
    assert_eq!(foreign.objective_power(), Some(20.0), "{:?}", foreign.properties());
    // Inside, across tiles, over the edges, beyond them.
    for (level, x, y) in [(0, 0, 0), (0, 29, 13), (0, 280, 190), (1, 70, 50), (1, -5, -7), (0, -60, -60), (1, 149, 99)]
    {
        let read =
            |slide: &Slide| slide.read_region(level, x, y, 40, 30).expect("a region").as_u8().expect("u8").to_vec();
        assert_eq!(read(&foreign), read(&own), "level {level} at {x}, {y}");
    }
    // From several threads at once.
    let whole = own.read_region(0, 0, 0, 300, 200).expect("the level");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let read = foreign.read_region(0, 0, 0, 300, 200).expect("the level");
                assert_eq!(read.as_u8(), whole.as_u8());
            });
        }
    });
}

#[test]
fn what_openslide_does_not_know_either_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("notes.mrxs");
    std::fs::write(&path, "no slide").expect("written");
    let error = Slide::open(&path).expect_err("no slide").to_string();
    assert!(error.contains("notes.mrxs"), "{error}");
    // Recognized by its first page, but truncated.
    slides(&dir);
    let whole = std::fs::read(dir.path().join("trestle.tif")).expect("a file");
    let path = dir.path().join("cut.tif");
    for part in [8, whole.len() / 2, whole.len() - 9] {
        std::fs::write(&path, &whole[..part]).expect("written");
        let error = Slide::open(&path).expect_err("cut off").to_string();
        assert!(error.contains("cut.tif"), "{error}");
    }
}
