//! Written files are read back by our reader, by the `nifti` crate, and by nibabel. Damaged files
//! are errors.

use std::io::Read;
use std::path::{Path, PathBuf};

use hearth_image::{Affine, Image, affine, host_device};
use hearth_io::nifti::{DataType, read_header};
use hearth_io::readers::read_image;
use hearth_io::{NiftiOptions, WriteOptions, read_nifti, write_image, write_nifti};

const TILTED: Affine = [[-1.2, 0.1, 0.0, 40.0], [0.12, 0.9985, -0.6, -33.0], [0.0, 0.2, 2.9, 7.5], affine::IDENTITY[3]];

fn image(shape: [usize; 4]) -> Image {
    let n = shape.iter().product::<usize>();
    let values = (0..n).map(|i| (i * 37 % 211) as f32).collect();
    Image::from_values(values, shape, TILTED, &host_device())
}

#[test]
fn every_type_and_container_comes_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let types = [
        DataType::U8,
        DataType::I16,
        DataType::U16,
        DataType::I32,
        DataType::U32,
        DataType::I64,
        DataType::U64,
        DataType::F32,
        DataType::F64,
    ];
    for (i, data_type) in types.into_iter().enumerate() {
        let name = if i % 2 == 0 { "a.nii.gz" } else { "a.nii" };
        let path = dir.path().join(name);
        let written = image([1 + i % 2, 5, 18, 7]);
        write_nifti(&path, &written, NiftiOptions::image().data_type(data_type)).expect("written");
        let read = read_nifti(&path).expect("readable");
        assert_eq!(read.data.dims(), written.data.dims(), "{data_type:?}");
        assert_eq!(read.to_vec(), written.to_vec(), "{data_type:?}");
        assert!(affine::distance(&read.affine, &TILTED) < 1e-4);
        assert_eq!(read.meta.stored_type, data_type.name());
    }
}

#[test]
fn scaling_is_undone_and_2d_stays_2d() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("scaled.nii.gz");
    let written = image([1, 6, 9, 1]).with_spatial_dims(2);
    let options = NiftiOptions::image().data_type(DataType::I16).scaling(0.5, -100.0);
    write_nifti(&path, &written, options).expect("written");
    let read = read_nifti(&path).expect("readable");
    assert_eq!((read.to_vec(), read.meta.spatial_dims), (written.to_vec(), 2));
    assert_eq!(read_header(&path).expect("a header").dim, [6, 9]);
}

#[test]
fn the_header_is_carried_over() {
    let dir = tempfile::tempdir().expect("a folder");
    let (first, second) = (dir.path().join("1.nii"), dir.path().join("2.nii"));
    write_nifti(&first, &image([1, 4, 4, 4]), NiftiOptions::image()).expect("written");
    let mut bytes = std::fs::read(&first).expect("readable");
    bytes[148..154].copy_from_slice(b"tester");
    bytes[123] = 3;
    bytes[254..256].copy_from_slice(&4_i16.to_le_bytes());
    std::fs::write(&first, bytes).expect("written");
    let image = read_nifti(&first).expect("readable");
    write_nifti(&second, &image, NiftiOptions::label()).expect("written");
    let header = read_header(&second).expect("a header");
    assert_eq!((&header.descrip[..6], header.xyzt_units, header.sform_code), (&b"tester"[..], 3, 4));
}

/// Labels of FreeSurfer (2035), of instances, and below zero.
#[test]
fn labels_get_the_narrowest_type_that_holds_them() {
    let dir = tempfile::tempdir().expect("a folder");
    for (values, wanted) in [
        ([0.0, 255.0], DataType::U8),
        ([0.0, 2035.0], DataType::U16),
        ([0.0, 70_000.0], DataType::U32),
        ([-1.0, 300.0], DataType::I16),
        ([-1.0, 70_000.0], DataType::I32),
    ] {
        let image = Image::from_values(values.to_vec(), [1, 2, 1, 1], TILTED, &host_device());
        let path = dir.path().join("label.nii.gz");
        write_nifti(&path, &image, NiftiOptions::label()).expect("written");
        assert_eq!(read_header(&path).expect("a header").datatype, wanted.code(), "{values:?}");
        for name in ["label.nii.gz", "label.nrrd", "label.mha", "label.seg.nrrd"] {
            if values[0] < 0.0 && name.ends_with(".seg.nrrd") {
                continue;
            }
            let path = dir.path().join(name);
            write_image(&path, &image, &WriteOptions::label()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(read_image(&path).expect("an image").to_vec(), values, "{name}");
        }
    }
}

#[test]
fn values_that_do_not_fit_leave_no_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("label.nii.gz");
    let image = Image::from_values(vec![0.0, 300.0], [1, 2, 1, 1], TILTED, &host_device());
    let narrow = NiftiOptions::image().data_type(DataType::U8);
    let error = write_nifti(&path, &image, narrow).expect_err("too large").to_string();
    assert!(error.contains("label.nii.gz") && error.contains("300"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("the folder").count(), 0);
}

#[test]
fn the_nifti_crate_agrees() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.nii");
    write_nifti(&path, &image([1, 5, 6, 7]), NiftiOptions::image()).expect("written");
    let header = nifti::NiftiHeader::from_file(&path).expect("their reader takes it");
    assert_eq!(header.dim[..4], [3, 5, 6, 7]);
    assert_eq!((header.datatype, header.bitpix, header.vox_offset), (16, 32, 352.0));
    assert_eq!(header.sform_code, 1);
    assert!((f64::from(header.srow_y[1]) - TILTED[1][1]).abs() < 1e-6);
}

/// nibabel's reading of a file: values with the channels first, both matrices, the quaternion's
/// code, the stored type.
type Answer = (Vec<f64>, Affine, Affine, i32, String);

#[derive(serde::Serialize, serde::Deserialize)]
struct Record {
    made_with: String,
    /// BLAKE3 of the unpacked file that nibabel read, and the result.
    files: Vec<(String, Answer)>,
}

/// nibabel's readings of files like those we write.
fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/nibabel.json")
}

/// A rotation without shear, so that the quaternion can hold it.
const ROTATED: Affine = [[-1.6, -0.6, 0.0, 5.0], [-1.2, 0.8, 0.0, -6.0], [0.0, 0.0, 3.0, 7.0], affine::IDENTITY[3]];
const STORED: [DataType; 3] = [DataType::U8, DataType::I16, DataType::F32];

/// A file of each kind that nibabel reads.
fn files_for_nibabel(folder: &Path) -> Vec<(PathBuf, Image)> {
    let write = |(i, data_type): (usize, DataType)| {
        let path = folder.join(format!("{i}.nii{}", if i == 1 { "" } else { ".gz" }));
        let mut written = image([1 + i, 4, 5, 6]);
        written.affine = ROTATED;
        let options = NiftiOptions::image().data_type(data_type);
        let options = if i == 1 { options.scaling(2.0, 1.0) } else { options };
        if i == 1 {
            let values = written.to_vec().iter().map(|v| v.round() * 2.0 + 1.0).collect();
            written = Image::from_values(values, written.data.dims(), ROTATED, &host_device());
        }
        write_nifti(&path, &written, options).expect("written");
        (path, written)
    };
    STORED.into_iter().enumerate().map(write).collect()
}

/// The hash of a file's unpacked bytes: the compression level does not matter.
fn hash_of(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("readable");
    let mut plain = Vec::new();
    match path.extension().is_some_and(|extension| extension == "gz") {
        true => drop(flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).expect("gzip")),
        false => plain = bytes,
    }
    blake3::hash(&plain).to_string()
}

fn assert_answer((values, sform, qform, code, stored): &Answer, written: &Image, data_type: DataType) {
    let ours: Vec<f64> = written.to_vec().iter().map(|v| f64::from(*v)).collect();
    assert_eq!(*values, ours);
    assert!(affine::distance(sform, &ROTATED) < 1e-5 && affine::distance(qform, &ROTATED) < 1e-5);
    assert_eq!((*code, stored.as_str()), (1, data_type.name()));
}

#[test]
fn nibabel_read_files_like_those_we_write() {
    let text = std::fs::read_to_string(recorded()).expect("the record");
    let record: Record = serde_json::from_str(&text).expect("a record");
    let dir = tempfile::tempdir().expect("a folder");
    let written = files_for_nibabel(dir.path());
    assert_eq!(record.files.len(), written.len());
    for (((path, image), (hash, answer)), data_type) in written.iter().zip(&record.files).zip(STORED) {
        let how = crate::clients::how_to_record("hearth-io");
        assert_eq!(hash_of(path), *hash, "{data_type:?}: nibabel has not read these bytes. {how}");
        assert_answer(answer, image, data_type);
    }
}

#[test]
fn live_nibabel() {
    let Some(client) = crate::clients::find(&["nibabel"], "nibabel_read_files_like_those_we_write") else { return };
    const SCRIPT: &str = "
import sys, json, numpy as np, nibabel as nib
i = nib.load(sys.argv[1]); a = np.asanyarray(i.dataobj)
a = a if a.ndim == 4 else a[..., None]
print(json.dumps([np.moveaxis(a, 3, 0).astype(float).ravel().tolist(), i.affine.tolist(), i.get_qform().tolist(), int(i.header['qform_code']), str(i.get_data_dtype())]))
";
    let dir = tempfile::tempdir().expect("a folder");
    let mut files = Vec::new();
    for ((path, image), data_type) in files_for_nibabel(dir.path()).iter().zip(STORED) {
        let answer: Answer = serde_json::from_str(&client.run(SCRIPT, [path])).expect("an answer");
        assert_answer(&answer, image, data_type);
        files.push((hash_of(path), answer));
    }
    if crate::clients::recording() {
        let record = Record { made_with: client.versions(), files };
        let text = serde_json::to_string(&record).expect("JSON");
        std::fs::write(recorded(), text + "\n").expect("written");
    }
}

/// Bytes of a sound file, plain.
fn sound() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.nii");
    write_nifti(&path, &image([1, 4, 4, 4]), NiftiOptions::image()).expect("written");
    std::fs::read(path).expect("readable")
}

fn error_of(name: &str, bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    let error = read_nifti(&path).expect_err("damaged").to_string();
    assert!(error.contains(name), "the error does not name the file: {error}");
    error
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let n = compressor.gzip_compress(bytes, &mut out).expect("room");
    out.truncate(n);
    out
}

#[test]
fn damaged_files_name_file_and_field() {
    let good = sound();
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        bad
    };
    assert!(error_of("a.nii", &[]).contains("0 bytes"));
    assert!(error_of("b.nii", &good[..200]).contains("200 of 348"));
    assert!(error_of("c.nii", &good[..400]).contains("ends after 400"));
    assert!(error_of("d.nii", &with(0, &[9, 9])).contains("sizeof_hdr"));
    assert!(error_of("e.nii", &with(344, b"nope")).contains("magic"));
    assert!(error_of("f.nii", &with(40, &9_i16.to_le_bytes())).contains("field dim"));
    assert!(error_of("g.nii", &with(42, &(-3_i16).to_le_bytes())).contains("field dim"));
    assert!(error_of("h.nii", &with(70, &3_i16.to_le_bytes())).contains("field datatype"));
    assert!(error_of("i.nii", &with(70, &128_i16.to_le_bytes())).contains("rgb24"));
    assert!(error_of("j.nii", &with(108, &f32::NAN.to_le_bytes())).contains("field vox_offset"));
    assert!(error_of("k.nii", &with(108, &12.0_f32.to_le_bytes())).contains("field vox_offset"));
    assert!(error_of("l.nii", &with(116, &f32::INFINITY.to_le_bytes())).contains("field scl_inter"));
}

#[test]
fn gzip_is_unpacked_no_further_than_the_header_promises() {
    let good = sound();
    let whole = gzip(&good);
    assert!(error_of("a.nii.gz", &whole[..whole.len() / 2]).contains("a.nii.gz"));
    assert!(error_of("b.nii.gz", &gzip(&good[..380])).contains("ends after 380"));
    // A header that claims terabytes: rejected before memory is allocated.
    let mut huge = good.clone();
    for axis in 0..7 {
        huge[42 + 2 * axis..44 + 2 * axis].copy_from_slice(&i16::MAX.to_le_bytes());
    }
    huge[40..42].copy_from_slice(&7_i16.to_le_bytes());
    assert!(error_of("c.nii.gz", &gzip(&huge)).contains("limit"));
    // A header that claims 400 MB in a file of a few hundred bytes: more than deflate can compress.
    huge[40..42].copy_from_slice(&3_i16.to_le_bytes());
    for axis in 0..3 {
        huge[42 + 2 * axis..44 + 2 * axis].copy_from_slice(&464_i16.to_le_bytes());
    }
    assert!(error_of("d.nii.gz", &gzip(&huge)).contains("at most"));
    // A zip bomb after a small image: only the image is kept.
    let mut bomb = good.clone();
    bomb.resize(64 << 20, 0);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("bomb.nii.gz");
    std::fs::write(&path, gzip(&bomb)).expect("written");
    assert_eq!(read_nifti(&path).expect("the image is sound").shape(), [4, 4, 4]);
}

#[test]
fn several_gzip_members_are_one_file() {
    let good = sound();
    let mut bytes = gzip(&good[..360]);
    bytes.extend(gzip(&good[360..]));
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("two.nii.gz");
    std::fs::write(&path, bytes).expect("written");
    assert_eq!(read_nifti(&path).expect("readable").to_vec(), image([1, 4, 4, 4]).to_vec());
}

#[test]
fn damage_anywhere_in_a_gzip_file_is_an_error() {
    // Values that do not compress, so that a flipped byte hits them and not the code tables.
    let mut good = sound();
    good.truncate(352);
    let mut state = 1_u32;
    good.extend((0..4 * 64).map(|i| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The high byte of each f32 keeps the value near 1.
        if i % 4 == 3 { 0x3f } else { (state >> 24) as u8 }
    }));
    let whole = gzip(&good);
    let n = whole.len();
    let flipped = |at: usize| {
        let mut bad = whole.clone();
        bad[at] ^= 0x10;
        bad
    };
    for at in [n / 2, n - 20, n - 8, n - 1] {
        let error = error_of("flip.nii.gz", &flipped(at));
        assert!(error.contains("damaged gzip"), "byte {at} of {n}: {error}");
    }
    for cut in [1, 4, 8, n / 2] {
        let error = error_of("cut.nii.gz", &whole[..n - cut]);
        assert!(error.contains("cut off"), "{cut} bytes cut of {n}: {error}");
    }
    let behind = |bytes: &[u8]| [&whole[..], bytes].concat();
    // A second member that the image does not need is still checked, even if the lengths look
    // right.
    let mut other = good.clone();
    other.reverse();
    let mut second = gzip(&other);
    second[n / 2] ^= 0x10;
    assert!(error_of("second.nii.gz", &behind(&second)).contains("damaged gzip"));
    assert!(error_of("half.nii.gz", &behind(&gzip(&good)[..n / 2])).contains("cut off"));

    let dir = tempfile::tempdir().expect("a folder");
    let read = |bytes: &[u8]| {
        let path = dir.path().join("sound.nii.gz");
        std::fs::write(&path, bytes).expect("written");
        read_nifti(&path).expect("sound").to_vec()
    };
    let values = read(&whole);
    assert_eq!(values.len(), 64);
    assert_eq!(read(&behind(&[0; 700])), values, "NULs behind it");
    assert_eq!(read(&behind(b"junk")), values, "ignored with a warning");
    assert_eq!(read(&behind(&gzip(b"more"))), values, "a second member");
    let mut parts = gzip(&good[..400]);
    parts.extend(gzip(&good[400..]));
    assert_eq!(read(&parts), values, "two members");
    parts.extend([0; 9]);
    assert_eq!(read(&parts), values, "two members and NULs");
    // The end is not needed to read only the header.
    let path = dir.path().join("cut.nii.gz");
    std::fs::write(&path, &whole[..n - 4]).expect("written");
    assert_eq!(read_header(&path).expect("a header").dim, [4, 4, 4]);
}

#[test]
fn a_missing_file_and_a_folder_are_errors() {
    let dir = tempfile::tempdir().expect("a folder");
    assert!(read_nifti(dir.path().join("none.nii")).expect_err("missing").to_string().contains("none.nii"));
    assert!(read_nifti(dir.path()).expect_err("a folder").to_string().contains("folder"));
}
