//! Tests NRRD and MetaImage: files written by SimpleITK, files written by this crate, and damaged
//! files.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_image::{Image, affine, host_device};
use hearth_io::nifti::DataType;
use hearth_io::readers::{choose, read_segments, require_segments, segments_overlap};
use hearth_io::writers::{Segment, label_map};
use hearth_io::{NiftiOptions, ReadOptions, WriteOptions, read_image, read_image_with, write_image};

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
    options.segments.push(Segment { name: "liver\nx".to_owned(), colour: [255, 0, 51], ..Segment::new(2, "") });
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

/// 3D Slicer 4.10 has a channel for each segment, of 0 and 1, and states neither labels nor layers; its
/// segments may overlap.
#[test]
fn segments_of_older_versions_of_3d_slicer_are_channels() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("old.seg.nrrd");
    let write = |voxels: &str| {
        let text = format!(
            "NRRD0004\ntype: unsigned char\ndimension: 4\nspace: left-posterior-superior\nsizes: 2 2 2 1\n\
             space directions: none (1,0,0) (0,1,0) (0,0,1)\nkinds: list domain domain domain\nencoding: text\n\
             space origin: (0,0,0)\nSegment0_ID:=liver\nSegment0_Name:=Liver\nSegment1_ID:=tumour\n\
             Segment1_Name:=Tumour\n\n{voxels}\n"
        );
        fs::write(&path, text).expect("written");
    };
    write("1 0 0 1 1 0 0 0");
    let segments = read_segments(&path, &ReadOptions::default()).expect("segments");
    let known: Vec<_> = segments.iter().map(|of| (of.label, of.name.as_str(), of.layer)).collect();
    assert_eq!(known, [(1, "Liver", None), (2, "Tumour", None)]);
    assert!(segments_overlap(&path, &ReadOptions::default()).expect("readable"));
    let channels = ReadOptions::default().segments_as_channels(true);
    let image = read_image_with(&path, &channels).expect("readable");
    assert_eq!(label_map(&image, &segments).expect("a map").to_vec(), [1.0, 1.0, 2.0, 0.0]);
    let one = ReadOptions::default().segments(vec!["tumour".to_owned()]);
    assert_eq!(read_image_with(&path, &one).expect("readable").to_vec(), [0.0, 0.0, 1.0, 0.0]);
    let out = dir.path().join("new.seg.nrrd");
    let mut options = WriteOptions::label();
    options.segments.clone_from(&segments);
    write_image(&out, &image, &options).expect("written");
    assert_eq!(read_image(&out).expect("readable").to_vec(), [1.0, 1.0, 2.0, 0.0]);
    write("1 0 1 1 1 0 0 0");
    let image = read_image_with(&path, &channels).expect("readable");
    assert!(label_map(&image, &segments).expect_err("they overlap").contains("\"Liver\" and \"Tumour\" (1)"));
}

/// Segments of a file that someone edited: their numbers are not complete.
#[test]
fn segments_keep_their_names_where_numbers_are_left_out() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.seg.nrrd");
    let of = |place: usize, name: &str, label: usize| {
        format!(
            "Segment{place}_ID:=S{place}\nSegment{place}_LabelValue:={label}\nSegment{place}_Layer:=0\nSegment{place}_Name:={name}\n"
        )
    };
    let segments = [of(12, "Spleen", 1), of(3, "Liver", 7)].concat();
    let head = "NRRD0005\ntype: uint8\ndimension: 3\nsizes: 2 1 1\nencoding: text\n";
    fs::write(&path, format!("{head}{segments}\n7 1\n")).expect("written");
    let known = read_segments(&path, &ReadOptions::default()).expect("segments");
    let known: Vec<_> = known.into_iter().map(|of| (of.label, of.name)).collect();
    assert_eq!(known, [(7, "Liver".to_owned()), (1, "Spleen".to_owned())]);
}

#[test]
fn layers_and_labels_that_cannot_be_are_errors() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.seg.nrrd");
    let write = |label: &str, layer: &str| {
        let segment =
            format!("Segment0_ID:=S\nSegment0_Name:=Liver\nSegment0_LabelValue:={label}\nSegment0_Layer:={layer}\n");
        let head = "NRRD0005\ntype: uint8\ndimension: 4\nspace: left-posterior-superior\nsizes: 2 2 1 1\n\
                    space directions: none (1,0,0) (0,1,0) (0,0,1)\nkinds: list domain domain domain\n\
                    space origin: (0,0,0)\n";
        fs::write(&path, format!("{head}encoding: text\n{segment}\n1 0 1 1\n")).expect("written");
        read_image(&path).map(|image| image.to_vec()).map_err(|error| error.to_string())
    };
    assert_eq!(write("1", "1").expect("two layers"), [1.0, 1.0, 0.0, 1.0]);
    for (label, layer, words) in [
        ("1", "2", ["\"Liver\" is in layer 2", "0 to 1"]),
        ("1", "first", ["Segment0_Layer", "\"first\""]),
        ("-1", "0", ["Segment0_LabelValue", "\"-1\""]),
    ] {
        let error = write(label, layer).expect_err("refused");
        assert!(error.contains("a.seg.nrrd") && words.iter().all(|word| error.contains(word)), "{error}");
    }
}

/// Two layers of 2 x 2 x 1 voxels, as 3D Slicer and pynrrd write them: a tumour in the liver.
#[test]
fn overlapping_segments_come_back_as_they_went() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let of = |place: usize, name: &str, layer: usize, label: usize| {
        format!(
            "Segment{place}_ID:=Segment_{place}\nSegment{place}_Tags:=Segmentation.Status:completed|\nSegment{place}_Name:={name}\nSegment{place}_Color:=0.4 0.2 0.{place}\n\
             Segment{place}_LabelValue:={label}\nSegment{place}_Layer:={layer}\n"
        )
    };
    let segments = [of(0, "Liver", 0, 1), of(1, "Spleen", 0, 2), of(2, "Tumour", 1, 1)].concat();
    let text = format!(
        "NRRD0005\ntype: uint8\ndimension: 4\nspace: left-posterior-superior\nsizes: 2 2 2 1\n\
         space directions: none (1,0,0) (0,1,0) (0,0,1)\nkinds: list domain domain domain\nencoding: text\n\
         space origin: (0,0,0)\n{segments}\n1 0 1 1 2 0 0 1\n"
    );
    fs::write(at("a.seg.nrrd"), text).expect("written");
    let image = read_image(at("a.seg.nrrd")).expect("read");
    let segments = read_segments(at("a.seg.nrrd"), &ReadOptions::default()).expect("read");
    // Voxels in the order of the file: liver, liver and tumour, spleen, tumour.
    assert_eq!(image.to_vec(), [1.0, 2.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    let mut options = WriteOptions::label();
    options.segments.clone_from(&segments);
    write_image(at("b.seg.nrrd"), &image, &options).expect("written");
    let again = read_image(at("b.seg.nrrd")).expect("read");
    assert_eq!((again.to_vec(), again.data.dims()), (image.to_vec(), [2, 2, 2, 1]));
    let read = read_segments(at("b.seg.nrrd"), &ReadOptions::default()).expect("read");
    assert_eq!(read, segments);
    let layers: Vec<_> = read.iter().map(|of| (of.name.as_str(), of.layer, of.label)).collect();
    assert_eq!(layers, [("Liver", Some(0), 1), ("Spleen", Some(0), 2), ("Tumour", Some(1), 1)]);
    let bytes = fs::read(at("b.seg.nrrd")).expect("a file");
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let mut ids: Vec<&str> = head.lines().filter(|line| line.contains("_ID:=")).collect();
    assert_eq!(ids, ["Segment0_ID:=Segment_0", "Segment1_ID:=Segment_1", "Segment2_ID:=Segment_2"]);
    assert_eq!(head.matches("_Tags:=Segmentation.Status:completed|").count(), 3);
    ids.dedup_by_key(|line| line.split(":=").nth(1));
    assert_eq!(ids.len(), 3);
    // Segments on request, as of DICOM: in their order, or a channel for each.
    let mut asked = ReadOptions::default();
    asked.segments = vec!["tumour".to_owned(), "Gall*".to_owned(), "Li*".to_owned()];
    let of_request = |asked: &ReadOptions| read_image_with(at("b.seg.nrrd"), asked).expect("read").to_vec();
    assert_eq!(of_request(&asked), [3.0, 0.0, 3.0, 1.0]);
    let named = read_segments(at("b.seg.nrrd"), &asked).expect("read");
    assert_eq!(named.iter().map(|of| (of.label, of.layer)).collect::<Vec<_>>(), [(1, None), (2, None), (3, None)]);
    require_segments(at("b.seg.nrrd"), &ReadOptions::default().segments(vec!["tumour".to_owned(), "Li*".to_owned()]))
        .expect("both are in the file");
    let error = require_segments(at("b.seg.nrrd"), &asked).expect_err("Gall* is missing").to_string();
    assert!(error.contains("Gall*") && error.contains("Spleen"), "{error}");
    let by_number = ReadOptions::default().segments(vec!["2".to_owned()]);
    let named = read_segments(at("b.seg.nrrd"), &by_number).expect("read");
    assert_eq!(named.iter().map(|of| (of.label, of.name.as_str())).collect::<Vec<_>>(), [(1, "Spleen")]);
    assert_eq!(of_request(&by_number), [0.0, 1.0, 0.0, 0.0]);
    asked.segments_as_channels = true;
    assert_eq!(of_request(&asked), [[0.0, 0.0, 1.0, 1.0], [0.0; 4], [1.0, 0.0, 1.0, 0.0]].concat());
    asked.segments = vec!["heart".to_owned()];
    let error = read_image_with(at("b.seg.nrrd"), &asked).expect_err("no such segment").to_string();
    assert!(error.contains("heart") && error.contains("Spleen"), "{error}");
    // A label map has one label for each voxel.
    let error = label_map(&image, &segments).expect_err("an overlap");
    assert!(error.contains("Liver") && error.contains("Tumour"), "{error}");
    // Channels of regions: each is complete.
    let regions = Image::from_values(vec![1.0, 1.0, 0.0, 1.0, 0.0, 0.0], [3, 2, 1, 1], image.affine, &host_device());
    options.segments =
        ["whole", "core", "rest"].iter().zip(1..).map(|(name, label)| Segment::new(label, *name)).collect();
    write_image(at("c.seg.nrrd"), &regions, &options).expect("written");
    let read = read_segments(at("c.seg.nrrd"), &ReadOptions::default()).expect("read");
    assert_eq!(read.iter().map(|of| of.layer).collect::<Vec<_>>(), [Some(0), Some(1), Some(0)]);
    assert_eq!(read_image(at("c.seg.nrrd")).expect("read").to_vec(), [1.0, 1.0, 0.0, 2.0]);
    options.segments.pop();
    let error = write_image(at("d.seg.nrrd"), &regions, &options).expect_err("one too few").to_string();
    assert!(error.contains("3 channels") && error.contains("whole, core") && !at("d.seg.nrrd").exists(), "{error}");
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
    // A coronal slice.
    let text = "NRRD0004\ntype: short\ndimension: 2\nspace: RAS\nsizes: 2 2\nencoding: text\n\
                space directions: (2,0,0) (0,0,3)\nspace origin: (1,2,3)\n\n1 2 3 4\n";
    let slice = read(text.as_bytes()).expect("read");
    assert_eq!((slice.spacing(), slice.meta.spatial_dims), ([2.0, 3.0, 1.0], 2));
    assert_eq!([0, 1, 2].map(|row| slice.affine[row][2]), [0.0, -1.0, 0.0]);
    let plain = read(&nrrd("spacings: 2 3 4", "2 2 2")).expect("read");
    assert_eq!((plain.affine[0][0], plain.affine[2][2]), (-2.0, 4.0));
    for (more, sizes, said) in [
        ("space: scanner-xyz", "2 2 2", "LPS, RAS and LAS"),
        ("space directions: (1,0) (0,1) (0,0)", "2 2 2", "not a vector"),
        ("data file: ../../etc/passwd", "2 2 2", "header's folder"),
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
    read(&whole).expect("whole");
    for end in 0..whole.len() {
        assert!(read(&whole[..end]).is_err(), "cut at {end}");
    }
    // The checksum and the length of its gzip stream.
    for at in whole.len() - 8..whole.len() {
        let mut other = whole.clone();
        other[at] ^= 1;
        assert!(read(&other).is_err(), "byte {at}");
    }
    read(&[&whole[..], b"behind"].concat()).expect("bytes behind the stream are ignored");
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
        ("NDims = 3", "NDims = 8", "expected 2 to 7"),
        ("NDims = 3", "NDims = 4", "expected 4"),
        ("DimSize = 4 3 2", "DimSize = 4 3", "expected 3"),
        ("DimSize = 4 3 2", "DimSize = 4 -3 2", "whole numbers above 0"),
        ("DimSize = 4 3 2", "DimSize = 40000 30000 20000", "expected 1 to 2^33"),
        ("MET_SHORT", "MET_STRING", "another type of numbers"),
        ("LOCAL", "../../etc/passwd", "header's folder"),
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
    // Packed: the last four bytes are its checksum.
    let whole = fs::read(recorded("packed.mha")).expect("a file");
    read(&whole).expect("whole");
    for at in whole.len() - 4..whole.len() {
        let mut other = whole.clone();
        other[at] ^= 1;
        assert!(read(&other).is_err() && read(&whole[..at]).is_err(), "byte {at}");
    }
}
