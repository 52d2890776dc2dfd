//! Small TIFFs written by tifffile and imagecodecs, compared with what those read back
//! (`files/make.py`).

use std::path::{Path, PathBuf};

use hearth_slides::{Slide, TiffFile, read_tiff, read_tiff_stack};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The tolerance of a value after JPEG: decoders round differently, and colours are converted with
/// less precision than in libjpeg.
const LOSSY: f64 = 5.0;
/// The tolerance of the mean.
const LOSSY_MEAN: f64 = 0.25;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files")
}

#[test]
fn every_file_is_as_tifffile_reads_it() {
    let text = std::fs::read_to_string(folder().join("expected.json")).expect("expected.json");
    let all: serde_json::Map<String, Value> = serde_json::from_str(&text).expect("JSON");
    assert!(all.len() > 20);
    let mut wrong = Vec::new();
    for (name, pages) in &all {
        let file = TiffFile::open(folder().join(name)).expect("a TIFF");
        let pages = pages.as_array().expect("pages");
        assert_eq!(file.pages().len(), pages.len(), "{name}");
        for (number, expected) in pages.iter().enumerate() {
            let mut check = |what: &str, good: bool, got: String| {
                if !good {
                    wrong.push(format!("{name}, page {number}: {what} {got}, expected {}", expected[what]));
                }
            };
            let raster = match file.read(number) {
                Ok(raster) => raster,
                Err(error) => {
                    check("readable", false, error.to_string());
                    continue;
                }
            };
            let shape: Vec<usize> = serde_json::from_value(expected["shape"].clone()).expect("a shape");
            let got = match raster.channels {
                1 => vec![raster.height, raster.width],
                n => vec![raster.height, raster.width, n],
            };
            check("shape", got == shape, format!("{got:?}"));
            check("dtype", expected["dtype"] == raster.samples.kind().name(), raster.samples.kind().name().into());
            if let Some(sha) = expected["sha256"].as_str() {
                let digest: String =
                    Sha256::digest(raster.samples.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
                check("sha256", digest == sha, digest.clone());
            }
            for sample in expected["samples"].as_array().expect("samples") {
                let (row, column): (usize, usize) =
                    (sample[0].as_u64().expect("a row") as usize, sample[1].as_u64().expect("a column") as usize);
                let wanted: Vec<f64> = serde_json::from_value(sample[2].clone()).expect("values");
                let got = raster.pixel(column, row);
                let near = if expected["sha256"].is_string() { 0.0 } else { LOSSY };
                check(
                    "samples",
                    got.iter().zip(&wanted).all(|(g, w)| (g - w).abs() <= near),
                    format!("{got:?} at {row}, {column}"),
                );
            }
            let values = raster.samples.to_f32();
            let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
            let wanted = expected["mean"].as_f64().expect("a mean");
            check(
                "mean",
                (mean - wanted).abs() <= if expected["sha256"].is_string() { 1e-6 * wanted.abs() } else { LOSSY_MEAN },
                mean.to_string(),
            );
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n  {}", wrong.len(), wrong.join("\n  "));
}

#[test]
fn a_stack_is_all_its_pages() {
    let stack = read_tiff_stack(folder().join("stack.tif")).expect("a stack");
    assert_eq!(stack.len(), 3);
    let (first, second) = (stack[0].as_u8().expect("u8"), stack[1].as_u8().expect("u8"));
    assert_eq!(first[..50], second[39 * 50..]);
    // A pyramid is not a stack.
    assert_eq!(read_tiff_stack(folder().join("pyramid.ome.tif")).expect("a stack").len(), 1);
    assert_eq!(read_tiff(folder().join("palette.tif")).expect("an image").channels, 3);
}

#[test]
fn ome_xml_tells_levels_and_resolution() {
    let slide = Slide::open(folder().join("pyramid.ome.tif")).expect("a slide");
    assert_eq!(slide.vendor(), "ome-tiff");
    assert_eq!(slide.dimensions(), (50, 40));
    let levels: Vec<_> = slide.levels().iter().map(|l| (l.width, l.height, l.downsample, l.tile_width)).collect();
    assert_eq!(levels, [(50, 40, 1.0, 16), (25, 20, 2.0, 16)]);
    assert_eq!(slide.mpp(), Some([0.5, 0.5]));
    assert_eq!(slide.properties()["ome.SizeC"], "3");
}
