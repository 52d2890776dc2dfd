//! Real slides and TIFFs against tifffile (`expected.json`). Ignored: the files are not part of the
//! project.

use std::path::{Path, PathBuf};

use hearth_slides::{Raster, Slide, TiffFile, TissueOptions, TissueRule};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The folder of real files: `HEARTH_REAL_DATA`, or `../shared/data` next to the project.
fn real_data() -> PathBuf {
    std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from)
}

/// Name and expected values of every TIFF.
fn tiffs() -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(real_data().join("expected.json")).expect("expected.json");
    let all: serde_json::Map<String, Value> = serde_json::from_str(&text).expect("JSON");
    all.into_iter().filter(|(_, e)| e["kind"] == "tiff").collect()
}

fn mean(raster: &Raster) -> f64 {
    let values = raster.samples.to_f32();
    values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64
}

/// The bytes of all samples; channel by channel where the file stores them so.
fn sha256(raster: &Raster, planar: bool) -> String {
    let bytes = raster.samples.as_bytes();
    let digest = if planar {
        let channel = |c: usize| bytes.iter().skip(c).step_by(raster.channels).copied();
        Sha256::digest((0..raster.channels).flat_map(channel).collect::<Vec<u8>>())
    } else {
        Sha256::digest(bytes)
    };
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn every_page_is_as_tifffile_reads_it() {
    let mut wrong = Vec::new();
    let (mut exact, mut lossy) = (0, 0);
    for (name, expected) in tiffs() {
        let file = TiffFile::open(real_data().join(&name)).expect("a TIFF");
        let pages = expected["pages"].as_array().expect("pages");
        if pages.len() != file.pages().len() {
            wrong.push(format!("{name}: {} pages, expected {}", file.pages().len(), pages.len()));
            continue;
        }
        for (number, page) in pages.iter().enumerate() {
            let mut check = |what: &str, good: bool, got: String| {
                if !good {
                    wrong.push(format!("{name}, page {number}: {what} {got}, expected {}", page[what]));
                }
            };
            let info = &file.pages()[number];
            let raster = match file.read(number) {
                Ok(raster) => raster,
                Err(error) => {
                    check("readable", false, error.to_string());
                    continue;
                }
            };
            let shape: Vec<usize> = serde_json::from_value(page["shape"].clone()).expect("a shape");
            let planar = shape.len() == 3 && shape[0] == 3;
            let got = match (raster.channels, planar) {
                (1, _) => vec![raster.height, raster.width],
                (n, true) => vec![n, raster.height, raster.width],
                (n, false) => vec![raster.height, raster.width, n],
            };
            check("shape", got == shape, format!("{got:?}"));
            check("dtype", page["dtype"] == raster.samples.kind().name(), raster.samples.kind().name().into());
            let tile: Option<[usize; 2]> = serde_json::from_value(page["tile"].clone()).expect("a tile");
            check("tile", info.tile.map(|(w, h)| [w, h]) == tile, format!("{:?}", info.tile));
            let close = (mean(&raster) - page["mean"].as_f64().expect("a mean")).abs();
            if let Some(sha) = page["pixel_sha256"].as_str() {
                exact += 1;
                check("pixel_sha256", sha256(&raster, planar) == sha, sha256(&raster, planar));
            } else {
                lossy += 1;
                // Colours of YCbCr are converted with less precision than libjpeg's.
                check("mean", close < 0.1, mean(&raster).to_string());
            }
        }
    }
    println!("{exact} lossless and {lossy} lossy pages");
    assert!(wrong.is_empty(), "{} differences:\n  {}", wrong.len(), wrong.join("\n  "));
    assert!(exact >= 20 && lossy >= 10);
}

/// Regions of every level of every file, inside, over edges and outside, against the page decoded
/// whole.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn regions_are_crops_of_pages() {
    let mut levels = 0;
    for (name, _) in tiffs() {
        let path = real_data().join(&name);
        let (slide, file) = (Slide::open(&path).expect("a slide"), TiffFile::open(&path).expect("a TIFF"));
        for (level, size) in slide.levels().iter().enumerate() {
            let (width, height) = (size.width, size.height);
            let same_size = |page: &&hearth_slides::PageInfo| (page.width, page.height) == (width, height);
            let number = file.pages().iter().position(|page| same_size(&page)).expect("the level's page");
            let page = file.read(number).expect("readable");
            levels += 1;
            for i in 0..12usize {
                let (w, h) = (1 + i * 53 % 300, 1 + i * 37 % 280);
                let (x, y) = ((i * 977 % width) as i64 - 20, (i * 691 % height) as i64 - 20);
                let region = slide.read_region(level, x, y, w, h).expect("a region");
                for (row, line) in
                    region.samples.as_bytes().chunks_exact(w * page.channels * page.bits() / 8).enumerate()
                {
                    for (column, pixel) in line.chunks_exact(page.channels * page.bits() / 8).enumerate() {
                        let (px, py) = (x + column as i64, y + row as i64);
                        let inside = (0..width as i64).contains(&px) && (0..height as i64).contains(&py);
                        let at = (py * width as i64 + px) * pixel.len() as i64;
                        let good = if inside {
                            pixel == &page.samples.as_bytes()[at as usize..][..pixel.len()]
                        } else {
                            // Signed samples have no white.
                            pixel.iter().all(|v| *v == if name.contains("-i8") { 0 } else { 255 })
                        };
                        assert!(good, "{name}, level {level}: {pixel:?} at {px}, {py}");
                    }
                }
            }
        }
    }
    assert!(levels >= 30, "{levels} levels");
}

/// Properties of the same files in OpenSlide 4.0.1.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn slides_are_as_openslide_sees_them() {
    type Seen = (
        &'static str,
        &'static str,
        &'static [(usize, usize)],
        &'static [f64],
        Option<f64>,
        Option<f64>,
        &'static [&'static str],
    );
    let seen: [Seen; 5] = [
        (
            "cmu-1-small-region.svs",
            "aperio",
            &[(2220, 2967)],
            &[1.0],
            Some(0.499),
            Some(20.0),
            &["label", "macro", "thumbnail"],
        ),
        (
            "tcga-cr-7395.svs",
            "aperio",
            &[(4443, 3567), (2221, 1783)],
            &[1.0, 2.0005055500659967],
            None,
            None,
            &["thumbnail"],
        ),
        (
            "boxes.tiff",
            "generic-tiff",
            &[(300, 250), (150, 125), (75, 62), (37, 31)],
            &[1.0, 2.0, 4.016129032258064, 8.086312118570184],
            Some(352.777_779_833_770_1),
            None,
            &[],
        ),
        (
            "derived/cmu_pyramid_jpeg.tif",
            "generic-tiff",
            &[(2220, 2967), (1110, 1483), (555, 741), (277, 370)],
            &[1.0, 2.000337154416723, 4.002024291497976, 8.016679676065959],
            Some(0.499),
            None,
            &[],
        ),
        (
            "synthetic_10000x5000_zstd.tiff",
            "generic-tiff",
            &[(10000, 5000), (5000, 2500), (2500, 1250), (1250, 625), (625, 312)],
            &[1.0, 2.0, 4.0, 8.0, 16.01282051282051],
            Some(352.858_149_123_434),
            None,
            &[],
        ),
    ];
    for (name, vendor, sizes, downsamples, mpp, power, associated) in seen {
        let slide = Slide::open(real_data().join("wsi").join(name)).expect("a slide");
        assert_eq!(slide.vendor(), vendor, "{name}");
        assert_eq!(slide.levels().iter().map(|l| (l.width, l.height)).collect::<Vec<_>>(), sizes, "{name}");
        for (level, downsample) in slide.levels().iter().zip(downsamples) {
            assert!((level.downsample - downsample).abs() < 1e-12, "{name}: {}", level.downsample);
        }
        let near = |got: Option<f64>, wanted: Option<f64>| match (got, wanted) {
            (Some(got), Some(wanted)) => (got - wanted).abs() < 1e-4 * wanted,
            (got, wanted) => got == wanted,
        };
        assert!(near(slide.mpp().map(|m| m[0]), mpp), "{name}: {:?}", slide.mpp());
        assert_eq!(slide.objective_power(), power, "{name}");
        assert_eq!(slide.associated_names(), associated, "{name}");
        for image in associated {
            slide.read_associated(image).expect("readable");
        }
    }
    let slide = Slide::open(real_data().join("wsi/cmu-1-small-region.svs")).expect("a slide");
    assert_eq!(slide.properties()["aperio.ScanScope ID"], "CPAPERIOCS");
    let label = slide.read_associated("label").expect("a label");
    assert_eq!((label.width, label.height, label.pixel(258, 115)), (387, 463, vec![217.0, 142.0, 56.0]));
    // A pyramid below its page.
    let slide = Slide::open(real_data().join("wsi/derived/cmu_crop_subifd_bigtiff.tif")).expect("a slide");
    assert_eq!(slide.levels().iter().map(|l| l.width).collect::<Vec<_>>(), [448, 224, 112]);
}

/// Pixels as tifffile 2026.3.3 decodes them: level, x, y, RGB.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn pixels_are_tifffiles() {
    type Pixel = (usize, i64, i64, [f64; 3]);
    let recorded: [(&str, f64, &[Pixel]); 4] = [
        (
            "cmu-1-small-region.svs",
            1.0,
            &[
                (0, 740, 989, [246.0, 243.0, 243.0]),
                (0, 1110, 1483, [105.0, 44.0, 99.0]),
                (0, 1480, 741, [159.0, 108.0, 153.0]),
                (0, 2219, 2966, [248.0, 248.0, 248.0]),
                (0, 241, 239, [246.0, 246.0, 243.0]),
            ],
        ),
        (
            "tcga-cr-7395.svs",
            1.0,
            &[
                (0, 1481, 1189, [192.0, 99.0, 142.0]),
                (0, 2221, 1783, [238.0, 206.0, 226.0]),
                (0, 2962, 891, [188.0, 105.0, 152.0]),
                (1, 740, 594, [179.0, 77.0, 127.0]),
                (1, 1480, 445, [133.0, 72.0, 109.0]),
                (1, 2220, 1782, [255.0, 255.0, 255.0]),
            ],
        ),
        // Colours of YCbCr are converted with less precision than libjpeg's.
        (
            "derived/cmu_pyramid_jpeg.tif",
            3.0,
            &[
                (0, 1110, 1483, [89.0, 53.0, 101.0]),
                (0, 1480, 741, [163.0, 105.0, 155.0]),
                (2, 277, 370, [65.0, 25.0, 60.0]),
                (2, 370, 185, [103.0, 73.0, 111.0]),
                (2, 241, 239, [67.0, 40.0, 73.0]),
            ],
        ),
        (
            "synthetic_10000x5000_zstd.tiff",
            0.0,
            &[
                (0, 3333, 1666, [0.0, 0.0, 255.0]),
                (0, 5000, 2500, [255.0, 255.0, 0.0]),
                (3, 625, 312, [255.0, 255.0, 0.0]),
                (3, 1249, 624, [0.0, 0.0, 255.0]),
            ],
        ),
    ];
    for (name, slack, pixels) in recorded {
        let slide = Slide::open(real_data().join("wsi").join(name)).expect("a slide");
        for (level, x, y, wanted) in pixels {
            let got = slide.read_region(*level, x - 1, y - 1, 3, 3).expect("a region").pixel(1, 1);
            let far = got.iter().zip(wanted).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
            assert!(far <= slack, "{name}, level {level}: {got:?} at {x}, {y}, expected {wanted:?}");
        }
    }
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_small_region_of_a_large_slide_decodes_one_tile() {
    let slide = Slide::open(real_data().join("wsi/synthetic_10000x5000_zstd.tiff")).expect("a slide");
    slide.read_region(0, 5200, 2100, 256, 256).expect("a region");
    assert_eq!(slide.stats().tiles_decoded, 1);
    slide.read_region(0, 5100, 2000, 256, 256).expect("a region");
    assert_eq!(slide.stats().tiles_decoded, 4);
}

/// Pixel-exact masks: `ForegroundMask(hsv_threshold={"S": "otsu"})` of MONAI 1.6.1, and saturation
/// above scikit-image 0.26's `threshold_otsu`, of each level.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn tissue_is_monais_foreground() {
    let slide = Slide::open(real_data().join("wsi/derived/cmu_crop_pyramid_deflate.tif")).expect("a slide");
    let recorded = [
        (
            0.310546875,
            "998957ce3373863f18893cc6f6e8e60f027152c288c03958eb091a4f1d758c0b",
            "faba91bb9ba0a4b0a2a7d9de950b98ada6b40b091dfd5e5bae73f3387a26c13c",
        ),
        (
            0.291015625,
            "b696e725b1171d84338c5439992ad902af3bde31968a09a82ae9e7d7ee372d26",
            "00e94121dec8a6589d018026176a385d61d63c9dc41e87844bddd27dd892b880",
        ),
        (
            0.2716846955128205,
            "cec4673e02939a62586456be98a2e138855ee31e17a6e113f6c7687b0aec392e",
            "50382db624395f9db0b2fa5e1023b421e11813715d92d1b1a0557971734ecad7",
        ),
    ];
    for (level, (threshold, foreground, saturation)) in recorded.into_iter().enumerate() {
        for (rule, wanted) in [(TissueRule::Foreground, foreground), (TissueRule::Saturation, saturation)] {
            let options = TissueOptions { level: Some(level), rule, ..TissueOptions::default() };
            let mask = slide.tissue_mask(&options).expect("a mask");
            assert!((mask.threshold - threshold).abs() < 1e-12, "{}", mask.threshold);
            let bytes: Vec<u8> = mask.pixels.iter().map(|p| u8::from(*p)).collect();
            let digest: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(digest, wanted, "level {level}, {rule:?}");
        }
    }
}

/// Frames of DICOM slides as pydicom 3.0.2 decodes them: all, in their order.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn frames_of_dicom_slides_are_pydicoms() {
    let text = std::fs::read_to_string(real_data().join("expected.json")).expect("expected.json");
    let all: serde_json::Map<String, Value> = serde_json::from_str(&text).expect("JSON");
    for name in ["sm_image", "sm_image_control"] {
        let name = format!("wsi/dicom/{name}.dcm");
        let slide = Slide::open(real_data().join(&name)).expect("a slide");
        assert_eq!((slide.vendor(), slide.dimensions(), slide.levels().len()), ("dicom", (50, 50), 1), "{name}");
        let mpp = slide.mpp().expect("a resolution");
        assert!(mpp.iter().all(|mpp| (mpp - 0.499).abs() < 1e-9), "{name}: {mpp:?}");
        let mut digest = Sha256::new();
        for (x, y) in (0..50).step_by(10).flat_map(|y| (0..50).step_by(10).map(move |x| (x, y))) {
            let frame = slide.read_region(0, x, y, 10, 10).expect("a frame");
            digest.update(frame.as_u8().expect("8 bits"));
        }
        let digest: String = digest.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digest, all[&name]["pixel_sha256"], "{name}");
    }
    // A thumbnail of the same series is not a level.
    for name in ["boxes_0.dcm", "boxes_1.dcm"] {
        let slide = Slide::open(real_data().join("wsi/dicom").join(name)).expect("a slide");
        assert_eq!((slide.dimensions(), slide.levels().len()), ((16, 16), 1));
        assert_eq!((slide.objective_power(), slide.associated_names()), (Some(20.0), &["thumbnail".to_owned()][..]));
        // JPEG of RGB, as pydicom with Pillow decodes it.
        let level = slide.read_region(0, 0, 0, 16, 16).expect("the level");
        for (x, y, wanted) in [
            (0, 0, [245.0, 243.0, 252.0]),
            (15, 15, [234.0, 238.0, 248.0]),
            (7, 3, [228.0, 234.0, 216.0]),
            (10, 9, [191.0, 171.0, 202.0]),
        ] {
            let got = level.pixel(x, y);
            assert!(
                got.iter().zip(wanted).all(|(g, w)| (g - w).abs() <= 1.0),
                "{got:?} at {x}, {y}, expected {wanted:?}"
            );
        }
        assert!((mean(&level) - 236.304_687_5).abs() < 0.1, "{}", mean(&level));
        let thumbnail = slide.read_associated("thumbnail").expect("a thumbnail");
        assert_eq!(sha256(&thumbnail, false), all["wsi/dicom/boxes_1.dcm"]["pixel_sha256"]);
    }
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn dicom_files_that_are_no_slide_say_so() {
    let message = |name: &str| {
        let error = Slide::open(real_data().join("wsi/dicom").join(name)).expect_err(name);
        assert!(matches!(error, hearth_slides::SlideError::Unsupported { .. }));
        error.to_string()
    };
    assert!(message("seg_image_sm_control.dcm").contains("modality SEG"));
    assert!(message("sm_image_jpegls.dcm").contains("1.2.840.10008.1.2.4.80 (JPEG-LS)"));
    assert!(message("").contains("a folder with 3 slides, expected one"));
}
