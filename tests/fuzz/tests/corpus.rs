//! Every file of the corpus, whole and truncated, goes through its reader.

use std::path::Path;

/// The number of points at which a corpus file is truncated.
const CUTS: usize = 16;

fn replay(target: &str, read: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).expect("a corpus") {
        let bytes = std::fs::read(entry.expect("a file").path()).expect("a file");
        read(&bytes);
        (0..CUTS).for_each(|cut| read(&bytes[..bytes.len() * cut / CUTS]));
        files += 1;
    }
    assert!(files > 2, "{} holds {files} files", folder.display());
}

#[test]
fn nifti() {
    replay("nifti", hearth_fuzz::nifti);
}

#[test]
fn npy() {
    replay("npy", hearth_fuzz::npy);
}

#[test]
fn nrrd() {
    replay("nrrd", hearth_fuzz::nrrd);
}

#[test]
fn metaimage() {
    replay("metaimage", hearth_fuzz::metaimage);
}

#[test]
fn mgh() {
    replay("mgh", hearth_fuzz::mgh);
}

#[test]
fn analyze() {
    replay("analyze", hearth_fuzz::analyze);
}

#[test]
fn b2nd() {
    replay("b2nd", hearth_fuzz::b2nd);
}

#[test]
fn dataset_json() {
    replay("dataset_json", hearth_fuzz::dataset_json);
}

#[test]
fn dicom() {
    replay("dicom", hearth_fuzz::dicom);
}

#[test]
fn tiff() {
    replay("tiff", hearth_fuzz::tiff);
}

#[test]
fn raster() {
    replay("raster", hearth_fuzz::raster);
}

#[test]
fn recipe() {
    replay("recipe", hearth_fuzz::recipe);
}

#[test]
fn lists() {
    replay("lists", hearth_fuzz::lists);
}

#[test]
fn archive() {
    replay("archive", hearth_fuzz::archive);
}

#[test]
fn safetensors() {
    replay("safetensors", hearth_fuzz::safetensors);
}

#[test]
fn pickle() {
    replay("pickle", hearth_fuzz::pickle);
}

#[test]
fn plugin() {
    replay("plugin", hearth_fuzz::plugin);
}

#[test]
fn package() {
    replay("package", hearth_fuzz::package);
}

#[test]
fn bundle() {
    replay("bundle", hearth_fuzz::bundle);
}

#[test]
fn expression() {
    replay("expression", hearth_fuzz::expression);
}

#[test]
fn plans() {
    replay("plans", hearth_fuzz::plans);
}

#[test]
fn probabilities() {
    replay("probabilities", hearth_fuzz::probabilities);
}

#[test]
fn annotations() {
    replay("annotations", hearth_fuzz::annotations);
}

#[test]
fn run() {
    replay("run", hearth_fuzz::run);
}

#[test]
fn request() {
    replay("request", hearth_fuzz::request);
}
