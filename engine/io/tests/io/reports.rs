//! Files of kinds that users of other readers reported, with the right values (`reports/README.md` of
//! the real files). Ignored: the files are not part of the project.

use std::path::PathBuf;

use hearth_image::affine;
use hearth_io::nifti::read_header;
use hearth_io::readers::read_image;
use hearth_io::{WriteOptions, write_image};

fn report(name: &str) -> PathBuf {
    let data = std::env::var_os("HEARTH_REAL_DATA").expect("HEARTH_REAL_DATA");
    PathBuf::from(data).join("reports/files").join(name)
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn three_colour_pages_are_three_slices() {
    let image = read_image(report("rgbstack.tif")).expect("readable");
    assert_eq!(image.data.dims(), [3, 40, 30, 3]);
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn a_palette_of_labels_has_its_indices() {
    let image = read_image(report("palette.png")).expect("readable");
    let mut values = image.to_vec();
    values.sort_by(f32::total_cmp);
    values.dedup();
    assert_eq!((image.channels(), values), (1, vec![0.0, 1.0, 2.0]));
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn an_sform_outranks_a_qform_without_a_code() {
    let path = report("s_only.nii");
    let header = read_header(&path).expect("a header");
    let image = read_image(&path).expect("readable");
    assert_eq!((header.sform_code, header.qform_code), (1, 0));
    assert!(affine::distance(&image.affine, &header.sform()) < 1e-6);
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn bytes_after_a_gzip_stream_are_ignored() {
    read_image(report("trail_junk.nii.gz")).expect("readable");
}

#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn labels_of_freesurfer_keep_their_numbers() {
    let image = read_image(report("lab_fs.nii.gz")).expect("readable");
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["a.nii.gz", "a.nrrd", "a.mha"] {
        let path = dir.path().join(name);
        write_image(&path, &image, &WriteOptions::label()).expect("written");
        let again = read_image(&path).expect("readable");
        assert_eq!((again.to_vec(), again.meta.stored_type.as_str()), (image.to_vec(), "uint16"), "{name}");
    }
}
