//! Tests NRRD and MetaImage: files written by SimpleITK, files written by this crate, and damaged
//! files.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_image::{Image, affine, host_device};
use hearth_io::nifti::DataType;
use hearth_io::readers::choose;
use hearth_io::writers::Segment;
use hearth_io::{NiftiOptions, WriteOptions, read_image, write_image};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/volumes").join(name)
}

fn same_grid(a: &Image, b: &Image, what: &str) {
    for row in 0..3 {
        for column in 0..4 {
            let (a, b) = (a.affine[row][column], b.affine[row][column]);
            assert!((a - b).abs() < 1e-5, "{what}: {a}, {b}");
        }
    }
}

/// One image in every format, written by SimpleITK 2.5.7.
#[test]
fn images_of_itk_are_those_of_its_nifti() {
    let expected = read_image(recorded("image.nii")).expect("NIfTI");
    assert_eq!(expected.shape(), [4, 3, 2]);
    for name in ["plain.nrrd", "packed.nrrd", "plain.mha", "packed.mha", "apart.mhd"] {
        let image = read_image(recorded(name)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((image.shape(), image.to_vec()), (expected.shape(), expected.to_vec()), "{name}");
        assert_eq!(image.meta.stored_type, "int16", "{name}");
        same_grid(&image, &expected, name);
    }
    for name in ["vector.nrrd", "vector.mha"] {
        let image = read_image(recorded(name)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(image.data.dims(), [2, 4, 3, 2], "{name}");
        // The first voxel has 0 and 1; its neighbour along z is 12 voxels later.
        let values = image.to_vec();
        assert_eq!((values[0], values[1], values[24]), (0.0, 24.0, 1.0), "{name}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let image = read_image(recorded("image.nii")).expect("NIfTI");
    for name in ["a.nrrd", "a.mha"] {
        let path = dir.path().join(name);
        for (data_type, stored) in [(DataType::I16, "int16"), (DataType::F32, "float32")] {
            let options = WriteOptions::default().nifti(NiftiOptions::default().data_type(data_type));
            write_image(&path, &image, &options).expect("written");
            let again = read_image(&path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((again.data.dims(), again.to_vec()), (image.data.dims(), image.to_vec()), "{name}");
            assert_eq!(again.meta.stored_type, stored);
            same_grid(&again, &image, name);
        }
        let narrow = WriteOptions::default().nifti(NiftiOptions::default().data_type(DataType::U8));
        let error = write_image(&path, &image, &narrow).expect_err("negative").to_string();
        assert!(error.contains("-50") && error.contains("uint8"), "{error}");
        let both = Image::from_values((0..16).map(|v| v as f32).collect(), [2, 2, 2, 2], image.affine, &host_device());
        write_image(&path, &both, &WriteOptions::default()).expect("written");
        assert_eq!(read_image(&path).expect("read").to_vec(), both.to_vec(), "{name}");
    }
}

#[test]
fn segmentations_of_3d_slicer_have_names_and_colours() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("labels.seg.nrrd");
    let values = vec![0.0, 1.0, 2.0, 2.0, 0.0, 5.0, 0.0, 1.0];
    let labels = Image::from_values(values.clone(), [1, 2, 2, 2], affine::IDENTITY, &host_device());
    let mut options = WriteOptions::label();
    options.segments.push(Segment { label: 2, name: "liver\nx".to_owned(), colour: [255, 0, 51], coding: None });
    write_image(&path, &labels, &options).expect("written");
    let bytes = fs::read(&path).expect("a file");
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(3000)]).into_owned();
    for line in [
        "Segment0_Name:=Segment_1\n",
        "Segment1_Name:=liver x\n",
        "Segment1_Color:=1.000000 0.000000 0.200000\n",
        "Segment1_LabelValue:=2\n",
        "Segment2_LabelValue:=5\n",
        "Segment2_Extent:=0 1 0 1 0 1\n",
        "space: left-posterior-superior\n",
    ] {
        assert!(head.contains(line), "no {line:?} in\n{head}");
    }
    let again = read_image(&path).expect("read");
    assert_eq!((again.to_vec(), again.meta.stored_type.as_str()), (values, "uint8"));
}

/// A hand-written header, with voxels as text.
fn nrrd(more: &str, sizes: &str) -> Vec<u8> {
    format!("NRRD0004\ntype: short\ndimension: 3\nsizes: {sizes}\nencoding: text\n{more}\n\n1 2 3 4 5 6 7 8\n")
        .into_bytes()
}

#[test]
fn spaces_and_text_are_read_and_others_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.nrrd");
    let read = |content: &[u8]| {
        fs::write(&path, content).expect("written");
        read_image(&path).map_err(|error| error.to_string())
    };
    let image = read(&nrrd("space: RAS\nspace directions: (2,0,0) (0, 3, 0) (0,0,4)\nspace origin: (1,2,3)", "2 2 2"));
    let image = image.expect("read");
    assert_eq!((image.spacing(), image.affine[0][3], image.to_vec()[1]), ([2.0, 3.0, 4.0], 1.0, 5.0));
    let plain = read(&nrrd("spacings: 2 3 4", "2 2 2")).expect("read");
    assert_eq!((plain.affine[0][0], plain.affine[2][2]), (-2.0, 4.0));
    for (more, sizes, said) in [
        ("space: scanner-xyz", "2 2 2", "LPS, RAS and LAS"),
        ("space directions: (1,0) (0,1) (0,0)", "2 2 2", "not a vector"),
        ("data file: ../../etc/passwd", "2 2 2", "same folder"),
        ("byte skip: -1", "2 2 2", "not supported"),
        ("", "2 2 3", "the voxels end after 8 of 12"),
        ("", "2 0 3", "sizes"),
        ("", "2", "axes besides channels"),
        ("", "4000000000 4000000000 4000000000", "expected 1 to 2^33"),
        ("nothing", "2 2 2", "without a colon"),
    ] {
        let error = read(&nrrd(more, sizes)).expect_err(more);
        assert!(error.contains(said) && error.contains("a.nrrd"), "{more}, {sizes}: {error}");
    }
    // Voxels that are not compressed as stated, and a truncated file.
    let damaged = b"NRRD0004\ntype: short\ndimension: 3\nsizes: 2 2 2\nencoding: gzip\n\nnothing";
    assert!(read(damaged).expect_err("damaged").contains("can't be read"));
    let whole = fs::read(recorded("packed.nrrd")).expect("a file");
    for end in (0..whole.len()).step_by(7) {
        let _ = read(&whole[..end]);
    }
}

#[test]
fn damaged_metaimages_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.mha");
    let whole = fs::read(recorded("plain.mha")).expect("a file");
    let text = String::from_utf8_lossy(&whole).into_owned();
    assert_eq!(choose(&recorded("plain.mha")).expect("a reader").name(), "MetaImageReader");
    let read = |content: &[u8]| {
        fs::write(&path, content).expect("written");
        read_image(&path).map(|_| ()).map_err(|error| error.to_string())
    };
    for (from, to, said) in [
        ("NDims = 3", "NDims = 7", "expected 2 or 3"),
        ("DimSize = 4 3 2", "DimSize = 4 3", "expected 3"),
        ("DimSize = 4 3 2", "DimSize = 4 -3 2", "whole numbers above 0"),
        ("DimSize = 4 3 2", "DimSize = 40000 30000 20000", "expected 1 to 2^33"),
        ("MET_SHORT", "MET_STRING", "another type of numbers"),
        ("LOCAL", "../../etc/passwd", "same folder"),
        ("LOCAL", "missing.raw", "missing.raw"),
        ("ElementSpacing = 0.5", "ElementSpacing = x", "expected numbers"),
    ] {
        assert!(text.contains(from), "{from}");
        let place = text.find(from).expect("it is there");
        let content = [&whole[..place], to.as_bytes(), &whole[place + from.len()..]].concat();
        let error = read(&content).expect_err(to);
        assert!(error.contains(said), "{to}: {error}");
    }
    for end in (0..whole.len()).step_by(5) {
        assert!(read(&whole[..end]).is_err(), "cut at {end}");
    }
}
