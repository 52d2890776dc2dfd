//! Files of kinds that users of other readers reported, with the right values (`reports/README.md` of
//! the real files). Ignored: the files are not part of the project.

use std::path::PathBuf;

use hearth_image::{Affine, affine};
use hearth_io::nifti::read_header;
use hearth_io::readers::{read_image, read_segments};
use hearth_io::writers::label_map;
use hearth_io::{ReadOptions, WriteOptions, write_image};

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

/// Sums, first and last values of SimpleITK 2.5.7, whose arrays begin with the last axis.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn four_axes_two_axes_and_lists_are_those_of_simple_itk() {
    let turned: Affine = [
        [-0.682_619_229, 0.158_141_449, -0.299_500_25, 1.0],
        [-0.112_616_952, -0.753_723_731, -0.882_131_51, 2.0],
        [-0.106_528_917, -0.216_545_191, 2.851_691_358, 3.0],
        affine::IDENTITY[3],
    ];
    let straight = [[-0.7, 0.0, 0.0, 0.0], [0.0, -0.8, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0], affine::IDENTITY[3]];
    let flat = [[-1.0, 0.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0], affine::IDENTITY[2], affine::IDENTITY[3]];
    for (name, shape, dims, sum, first, last, grid) in [
        ("j4.mha", [3, 20, 16, 10], 3, 556_028.0, [36.0, -164.0, 91.0], -170.0, turned),
        ("j4.nrrd", [3, 20, 16, 10], 3, 556_028.0, [36.0, -164.0, 91.0], -170.0, turned),
        ("s2.nrrd", [1, 16, 20, 1], 2, 41_071.0, [36.0, 234.0, 232.0], 253.0, flat),
        ("list.mhd", [1, 20, 16, 10], 3, 168_276.0, [36.0, -164.0, 91.0], -179.0, straight),
    ] {
        let image = read_image(report(name)).unwrap_or_else(|error| panic!("{error}"));
        let values = image.to_vec();
        let [_, _, y, z] = shape;
        assert_eq!((image.data.dims(), image.meta.spatial_dims), (shape, dims), "{name}");
        assert_eq!(values.iter().sum::<f32>(), sum, "{name}");
        assert_eq!([values[0], values[y * z], values[2 * y * z]], first, "{name}: along x");
        assert_eq!(values.last(), Some(&last), "{name}");
        assert!(affine::distance(&image.affine, &grid) < 1e-5, "{name}: {:?}", image.affine);
    }
}

/// The numbers of voxels of pynrrd 1.1.3.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn segments_in_layers_keep_their_own_voxels() {
    let dir = tempfile::tempdir().expect("a folder");
    let again = dir.path().join("again.seg.nrrd");
    let path = report("two_layers.seg.nrrd");
    let options = ReadOptions::default();
    let (image, segments) = (read_image(&path).expect("readable"), read_segments(&path, &options).expect("readable"));
    let mut written = WriteOptions::label();
    written.segments.clone_from(&segments);
    write_image(&again, &image, &written).expect("written");
    for path in [&path, &again] {
        let image = read_image(path).expect("readable");
        let values = image.to_vec();
        let read = read_segments(path, &options).expect("readable");
        let found = read.iter().map(|of| {
            let layer = values.chunks(20 * 16 * 10).nth(of.layer.expect("a layer")).expect("its channel");
            let voxels = layer.iter().filter(|value| **value == of.label as f32).count();
            (of.name.as_str(), of.label, of.colour, voxels)
        });
        let expected = [
            ("Liver", 1, [222, 130, 102], 216),
            ("Spleen", 2, [153, 102, 102], 120),
            ("Tumor", 1, [128, 179, 77], 140),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected, "{}", path.display());
        assert_eq!(image.data.dims(), [2, 20, 16, 10]);
    }
    let error = label_map(&image, &segments).expect_err("one label for each voxel");
    assert!(error.contains("Liver") && error.contains("Tumor"), "{error}");
}
