//! `hearth convert` and `hearth data convert` of images: names, surfaces, DICOM.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{errors, fail, phantom, run, succeed, text};
use hearth_data::dicom::{ReadOptions, Segmentation, SegmentationKind, StructureSet};
use hearth_data::readers::read_segments;
use hearth_data::writers::Segment;
use hearth_data::{Image, NiftiOptions, WriteOptions, read_image, write_image, write_nifti};

fn first(folder: &Path) -> PathBuf {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).min().expect("a file")
}

fn names(path: &Path) -> Vec<(u32, String)> {
    let segments = read_segments(path, &Default::default()).expect("readable");
    segments.into_iter().map(|segment| (segment.label, segment.name)).collect()
}

#[test]
fn names_and_colours_go_from_file_to_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = phantom(dir.path(), 1);
    let label = text(&first(&data.join("labelsTr")));
    let at = |name: &str| dir.path().join(name);
    // Without --label: a .seg.nrrd is always a label map.
    let slicer = at("lab.seg.nrrd");
    succeed(&["data", "convert", &label, &text(&slicer), "--segment", "1=spleen"]);
    assert_eq!(names(&slicer), [(1, "spleen".to_owned())]);
    let again = at("again.seg.nrrd");
    succeed(&["convert", &text(&slicer), &text(&again)]);
    assert_eq!(names(&again), names(&slicer));
    let colour = |path: &Path| read_segments(path, &Default::default()).expect("readable")[0].colour;
    assert_eq!(colour(&again), colour(&slicer));
    let plain = at("plain.nii.gz");
    succeed(&["convert", &text(&again), &text(&plain), "--label"]);
    assert!(read_image(&plain).expect("readable").to_vec() == read_image(&label).expect("readable").to_vec());
    // The surface has the name of the file, and the volume of the label.
    let mesh = at("organ.stl");
    let said = succeed(&["convert", &text(&again), &text(&mesh), "--decimate", "0.5"]);
    assert!(said.contains("organ.stl") && said.contains("spleen: ") && said.contains(" ml"), "{said}");
    let volume: f64 = said.split(", ").last().and_then(|end| end.split(' ').next()?.parse().ok()).expect("a volume");
    let image = read_image(&label).expect("readable");
    let voxels = image.to_vec().iter().filter(|value| **value == 1.0).count() as f64;
    let exact = voxels * image.spacing().iter().product::<f64>() / 1000.0;
    assert!((volume / exact - 1.0).abs() < 0.1, "{volume} {exact}");
    let bytes = fs::read(&mesh).expect("a mesh");
    assert!(bytes[..80].windows(9).any(|part| part == b"SPACE=LPS"));
    succeed(&["data", "convert", &label, &text(&at("organ.obj")), "--space", "ras", "--smooth", "0"]);
    assert!(fs::read_to_string(at("organ.obj")).expect("a mesh").contains("SPACE=RAS"));

    let image = text(&first(&data.join("imagesTr")));
    fail(&["convert", &image, &text(&at("x.stl"))], 1, &["x.stl", "labels"]);
    fail(&["convert", &label, &text(&at("x.stl")), "--segment", "7=liver"], 1, &["x.stl", "[1]"]);
    fail(&["convert", &label, &text(&at("x.stl")), "--decimate", "1"], 1, &["0 to less than 1"]);
    fail(&["convert", &label, &text(&at("x.nii")), "--smooth", "3"], 1, &["--smooth", ".stl"]);
    fail(&["convert", &label, &text(&at("x.nii")), "--segment", "liver"], 1, &["LABEL=NAME"]);
    fail(&["convert", &label, &text(&at("x.nii")), "--map", "a=b"], 1, &["--map", "weights", "an image"]);
    fail(&["convert", &label, &text(&at("x.safetensors")), "--label"], 1, &["--label", "weights"]);
    fail(&["convert", &label, &text(&at("x.dcm"))], 1, &["--like"]);
    // Options that nothing obeys.
    let nrrd = text(&at("x.nrrd"));
    fail(&["convert", &label, &nrrd, "--segment", "1=a", "--segment", "1=b"], 1, &["1=b", "has a name already"]);
    fail(&["convert", &label, &nrrd, "--like", &text(&data)], 1, &["--like", "holds none", "x.nrrd is no .dcm"]);
    fail(&["convert", &label, &nrrd, "--series", "3"], 1, &["--series is for DICOM"]);
    fail(&["convert", &label, &nrrd, "--accept", "MissingSlices"], 1, &["--accept is for DICOM"]);
    fail(&["convert", &label, &text(&at("none/x.nrrd"))], 1, &["there is no folder", "none"]);
    let output = run(&["convert", &label, &text(&at("x.seg.nrrd")), "--segment", "7=liver"]);
    assert!(output.status.success() && errors(&output).contains("no voxel has the label 7"), "{}", errors(&output));
}

/// `--only`, out of the structure set, a SEG and a `.seg.nrrd`: the voxels of the segment, as label 1.
fn one_segment_is_chosen(at: &dyn Fn(&str) -> PathBuf, drawn: &Path, slicer: &Path, like: &str) {
    let segments = read_segments(slicer, &Default::default()).expect("readable");
    let gtv = segments.iter().find(|segment| segment.name == "GTV-1").expect("a tumour");
    let layers = read_image(slicer).expect("readable");
    let size: usize = layers.shape().iter().product();
    let layer = &layers.to_vec()[gtv.layer.unwrap_or(0) * size..][..size];
    let expected: Vec<f32> = layer.iter().map(|value| f32::from(*value == gtv.label as f32)).collect();
    assert!(expected.contains(&1.0) && segments.len() > 1);
    let seg = at("seg.dcm");
    for (place, from) in [drawn, seg.as_path(), slicer].into_iter().enumerate() {
        let from = text(from);
        for (name, end) in [("gtv-1", "nii.gz"), ("GTV*", "seg.nrrd")] {
            let to = at(&format!("only{place}.{end}"));
            succeed(&["convert", &from, &text(&to), "--like", like, "--only", name]);
            let image = read_image(&to).expect("readable");
            assert!(image.to_vec() == expected, "{from}, {name}");
            assert_eq!(image.meta.stored_type, "uint8", "{from}");
        }
        let known = names(&at(&format!("only{place}.seg.nrrd")));
        assert_eq!(known, [(1, "GTV-1".to_owned())], "{from}");
        let to = text(&at("none.nii.gz"));
        let call = ["convert", &from, &to, "--like", like, "--only", "gtv-1", "--only", "Hart"];
        fail(&call, 1, &["--only", "Hart", "GTV-1", segments[0].name.as_str()]);
        assert!(!at("none.nii.gz").exists());
    }
    // By number.
    let to = at("number.nii.gz");
    succeed(&["convert", &text(slicer), &text(&to), "--only", &gtv.label.to_string()]);
    let unique = segments.iter().filter(|segment| segment.label == gtv.label).count() == 1;
    assert!(!unique || read_image(&to).expect("readable").to_vec() == expected);
    fail(&["convert", &text(&to), &text(&at("x.nii")), "--only", "GTV-1"], 1, &["--only", "no segments", "SEG"]);
}

#[test]
fn labels_become_dicom_and_come_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("chests");
    succeed(&["data", "phantom", "lung", "--cases", "1", "--size", "48", "--out", &text(&data)]);
    let study = data.join("LUNG1-001/00001-StudyID-NA");
    let images = study.join("0.000000-NA");
    let drawn = fs::read_dir(&study).expect("a folder").map(|entry| entry.expect("an entry").path());
    let drawn = first(&drawn.into_iter().find(|path| *path != images).expect("a structure set"));
    let like = text(&images);
    let at = |name: &str| dir.path().join(name);
    let slicer = at("drawn.seg.nrrd");
    succeed(&["convert", &text(&drawn), &text(&slicer), "--like", &like]);
    let known = names(&slicer);
    assert!(known.iter().any(|(_, name)| name == "GTV-1"), "{known:?}");
    let labels = read_image(&slicer).expect("readable").to_vec();
    fs::write(
        at("codes.toml"),
        "[gtv-1]\ncategory = [\"C1\", \"99LOCAL\", \"Thing\"]\ntype = [\"T1\", \"99LOCAL\", \"Mass\"]\n",
    )
    .expect("written");
    // A table without a label of the file would be ignored.
    let codes = fs::read_to_string(at("codes.toml")).expect("codes").replace("gtv-1", "GTV1");
    fs::write(at("other.toml"), codes).expect("written");
    let (from, to, other) = (text(&slicer), text(&at("none.dcm")), text(&at("other.toml")));
    fail(&["convert", &from, &to, "--like", &like, "--codes", &other], 1, &["--codes", "did you mean \"GTV-1\"?"]);
    assert!(!at("none.dcm").exists());
    for (kind, expected) in [
        ("seg", SegmentationKind::Binary),
        ("seg-fractional", SegmentationKind::Fractional { maximum: 255 }),
        ("seg-labelmap", SegmentationKind::LabelMap),
    ] {
        let path = at(&format!("{kind}.dcm"));
        let (from, to, codes) = (text(&slicer), text(&path), text(&at("codes.toml")));
        succeed(&["convert", &from, &to, "--like", &like, "--to", kind, "--codes", &codes]);
        let seg = Segmentation::open(&path).expect("a segmentation");
        assert_eq!(seg.kind(), expected);
        let coded = seg.regions().into_iter().find(|region| region.name == "GTV-1").expect("it");
        assert_eq!(coded.coding.expect("codes").kind.meaning, "Mass");
        let back = at(&format!("{kind}.seg.nrrd"));
        succeed(&["convert", &to, &text(&back), "--like", &like]);
        assert!(read_image(&back).expect("readable").to_vec() == labels, "{kind}");
        let own: Vec<String> = known.iter().map(|(_, name)| name.clone()).collect();
        assert_eq!(names(&back).into_iter().map(|(_, name)| name).collect::<Vec<_>>(), own);
    }
    let set = at("set.dcm");
    succeed(&["convert", &text(&slicer), &text(&set), "--like", &like, "--to", "rtstruct"]);
    let set = StructureSet::open(&set).expect("a structure set");
    assert!(set.rois.iter().any(|roi| roi.name == "GTV-1"));
    one_segment_is_chosen(&at, &drawn, &slicer, &like);
    let report = at("report.dcm");
    succeed(&["convert", &text(&slicer), &text(&report), "--like", &like, "--to", "sr"]);
    let object = dicom_object::open_file(&report).expect("DICOM");
    let modality = object.element(dicom_dictionary_std::tags::MODALITY).expect("a modality");
    assert_eq!(modality.to_str().expect("text"), "SR");
    assert!(Segmentation::open_with(&report, &ReadOptions::default()).is_err());

    let plain = at("plain.nii.gz");
    succeed(&["data", "convert", &text(&slicer), &text(&plain), "--label"]);
    // The same voxels from right to left and with z before y, as other programs write them.
    let image = read_image(&plain).expect("readable");
    let ([nx, ny, nz], values) = (image.shape(), image.to_vec());
    let mut turned = Vec::with_capacity(values.len());
    for x in (0..nx).rev() {
        for z in 0..nz {
            turned.extend((0..ny).map(|y| values[(x * ny + y) * nz + z]));
        }
    }
    let mut affine = image.affine.map(|[x, y, z, origin]| [-x, z, y, origin + (nx as f64 - 1.0) * x]);
    affine[3] = [0.0, 0.0, 0.0, 1.0];
    let turned = Image::from_values(turned, [1, nx, nz, ny], affine, &hearth_data::host_device());
    let path = at("turned.nii.gz");
    write_nifti(&path, &turned, NiftiOptions::label()).expect("written");
    succeed(&["convert", &text(&path), &text(&at("turned.dcm")), "--like", &like]);
    succeed(&["convert", &text(&at("turned.dcm")), &text(&at("turned.seg.nrrd")), "--like", &like]);
    assert!(read_image(at("turned.seg.nrrd")).expect("readable").to_vec() == labels, "in other axes");
    let measured = succeed(&["metrics", "--pred", &text(&path), "--label", &text(&plain), "--json"]);
    let measured: serde_json::Value = serde_json::from_str(&measured).expect("JSON");
    assert_eq!(measured["classes"]["1"]["dice"]["mean"], 1.0, "{measured}");
    // A voxel further, and they are other voxels.
    affine[0][3] += image.spacing()[0];
    let moved = Image { affine, ..turned };
    write_nifti(&path, &moved, NiftiOptions::label()).expect("written");
    fail(&["convert", &text(&path), &text(&at("moved.dcm")), "--like", &like], 1, &["resample"]);
    fail(&["metrics", "--pred", &text(&path), "--label", &text(&plain)], 1, &["different grids"]);

    // Regions that share voxels are named where a format has one label for each voxel.
    let source = read_image(&slicer).expect("readable");
    let inside: Vec<f32> = labels.iter().map(|label| f32::from(u8::from(*label > 0.0))).collect();
    let shape = [2, source.shape()[0], source.shape()[1], source.shape()[2]];
    let both = [&inside[..], &inside[..]].concat();
    let both = Image::from_values(both, shape, source.affine, &hearth_data::host_device());
    let mut options = WriteOptions::label();
    options.segments = vec![Segment::new(1, "whole"), Segment::new(2, "core")];
    write_image(at("both.seg.nrrd"), &both, &options).expect("written");
    let (from, seg) = (text(&at("both.seg.nrrd")), text(&at("both.dcm")));
    succeed(&["convert", &from, &seg, "--like", &like]);
    let words = ["\"whole\" and \"core\"", ".seg.nrrd"];
    fail(&["convert", &seg, &text(&at("both.nii.gz")), "--like", &like], 1, &[&words[..], &["both.dcm"]].concat());
    fail(&["convert", &from, &text(&at("both.nii.gz")), "--label"], 1, &words);
    let map = ["convert", &from, &text(&at("map.dcm")), "--like", &like, "--to", "seg-labelmap"];
    fail(&map, 1, &["whole, core", "binary SEG"]);

    let (plain, out) = (text(&plain), text(&at("x.dcm")));
    fail(&["convert", &plain, &out, "--like", &text(&study.join("none"))], 1, &["--like"]);
    fs::write(at("bad.toml"), "[gtv]\ncategory = [\"\", \"SCT\", \"x\"]\ntype = [\"1\", \"SCT\", \"x\"]\n")
        .expect("written");
    fail(&["convert", &plain, &out, "--like", &like, "--codes", &text(&at("bad.toml"))], 1, &["bad.toml", "gtv"]);
    fail(&["convert", &plain, &text(&at("x.nii")), "--to", "seg"], 1, &["--to", ".dcm"]);
}

/// A tumour in the liver, in layers as 3D Slicer writes them.
#[test]
fn overlapping_segments_come_back_as_they_went() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    let values = vec![1.0, 1.0, 1.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let layers = Image::from_values(values, [2, 2, 2, 2], hearth_data::affine::IDENTITY, &hearth_data::host_device());
    let mut options = WriteOptions::label();
    for (name, label, layer) in [("liver", 1, 0), ("spleen", 2, 0), ("tumour", 1, 1)] {
        options.segments.push(Segment { layer: Some(layer), ..Segment::new(label, name) });
    }
    let first = at("first.seg.nrrd");
    write_image(&first, &layers, &options).expect("written");
    let again = at("again.seg.nrrd");
    succeed(&["convert", &text(&first), &text(&again)]);
    assert_eq!(fs::read(&first).expect("a file"), fs::read(&again).expect("a file"));
    // A label map has one label for each voxel; a file of channels keeps the layers.
    let map = text(&at("map.nii.gz"));
    fail(&["convert", &text(&first), &map, "--label"], 1, &["first.seg.nrrd", "liver", "tumour", ".seg.nrrd"]);
    succeed(&["convert", &text(&first), &map]);
    assert_eq!(read_image(&map).expect("readable").to_vec(), layers.to_vec());
    // Each surface is complete.
    let said = succeed(&["convert", &text(&first), &text(&at("organ.stl")), "--smooth", "0"]);
    assert!(["liver", "spleen", "tumour"].iter().all(|name| at(&format!("organ_{name}.stl")).is_file()), "{said}");
}
