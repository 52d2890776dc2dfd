//! Blosc2 arrays: `tests/golden/nnunet/b2nd`, which `tests/golden/record_blosc2.py` recorded with
//! the library that nnU-Net uses, and damaged versions of them.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_image::Image;
use hearth_io::readers::{preprocessed_shape, read_array, read_image};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet/b2nd")
}

fn bytes(name: &str) -> Vec<u8> {
    fs::read(root().join(name)).expect("a recorded file")
}

/// The error of reading these bytes as a file of this name.
fn error(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("written");
    let error = read_image(&path).expect_err("not readable").to_string();
    assert!(error.contains(name), "{error} does not name the file");
    error
}

/// The bytes, with others written at an offset.
fn with(bytes: &[u8], at: usize, others: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + others.len()].copy_from_slice(others);
    bytes
}

/// The offset of the first chunk.
fn header(bytes: &[u8]) -> usize {
    u32::from_be_bytes(bytes[11..15].try_into().expect("four bytes")) as usize
}

/// Fails if an image does not have the values of an array of channels, z, y, x.
fn assert_same(image: &Image, shape: &[usize], values: &[f32], what: &str) {
    let &[channels, z, y, x] = shape else { panic!("{what}: {shape:?}") };
    assert_eq!((image.channels(), image.shape()), (channels, [x, y, z]), "{what}");
    let found = image.to_vec();
    for (at, value) in values.iter().enumerate() {
        let (rest, i) = (at / x, at % x);
        let (rest, j) = (rest / y, rest % y);
        let (c, k) = (rest / z, rest % z);
        let found = found[((c * x + i) * y + j) * z + k];
        assert!(found == *value || (found.is_nan() && value.is_nan()), "{what}: {found} for {value} at {at}");
    }
}

#[test]
fn arrays_of_every_codec_filter_and_shape_are_what_blosc2_reads() {
    let mut files: Vec<PathBuf> = fs::read_dir(root()).expect("a folder").flatten().map(|file| file.path()).collect();
    files.sort();
    let mut read = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "b2nd")) {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let array = name.split('-').next().expect("an array");
        if array == "refused" {
            continue;
        }
        let (shape, values) = read_array(&root().join(format!("{array}.npy"))).expect("an array");
        let image = read_image(file).unwrap_or_else(|error| panic!("{error}"));
        assert_same(&image, &shape, &values, &name);
        read += 1;
    }
    assert!(read >= 45, "{read} files");
}

#[test]
fn what_is_not_read_is_named() {
    for (name, part) in [
        ("refused-uninit.b2nd", "never written"),
        ("refused-delta.b2nd", "delta"),
        ("refused-bytedelta.b2nd", "plugin 35"),
        ("refused-chunks.b2frame", "not an array"),
        ("refused-records.b2nd", "whole or real numbers"),
        ("refused-complex.b2nd", "\"<c8\""),
    ] {
        let error = read_image(root().join(name)).expect_err("refused").to_string();
        assert!(error.contains(name) && error.contains(part), "{error} does not say {part}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    // A sparse frame is a folder, and its index states it, too.
    let whole = bytes("f4-lz4hc-none.b2nd");
    let sparse = folder.path().join("sparse.b2nd");
    fs::create_dir(&sparse).expect("a folder");
    fs::write(sparse.join("chunks.b2frame"), with(&whole, 26, &[1])).expect("written");
    for path in [sparse.clone(), sparse.join("chunks.b2frame")] {
        let error = read_image(&path).expect_err("sparse").to_string();
        assert!(error.contains("sparse frame"), "{error}");
    }
    let chunk = header(&whole);
    for (at, byte, part) in [
        (chunk + 31, 1, "dictionary"),
        (chunk + 30, 1, "several lengths"),
        (chunk + 31, 0x80, "measurements"),
        (chunk + 31, 0x40, "never written"),
        (chunk + 31, 0x50, "unknown kind 5"),
        (chunk, 4, "version 4"),
        (chunk + 2, whole[chunk + 2] & 0x1f | 2 << 5, "Snappy"),
        (chunk + 2, whole[chunk + 2] & 0x1f | 6 << 5, "plugin"),
        (chunk + 2, whole[chunk + 2] & 0x1f | 7 << 5, "unknown codec 7"),
        (chunk + 16, 200, "plugin 200"),
        (26, 3, "unknown kind 3"),
        (25, 0x02, "64 bits"),
    ] {
        let error = error(folder.path(), "x.b2nd", &with(&whole, at, &[byte]));
        assert!(error.contains(part), "{error} does not say {part}");
    }
}

#[test]
fn damaged_files_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = |bytes: &[u8]| error(folder.path(), "x.b2nd", bytes);
    for name in ["f4-zstd-shuffle.b2nd", "f4-lz4-bits.b2nd", "f4-zlib-none.b2nd", "i1-blosclz-none.b2nd"] {
        let whole = bytes(name);
        for cut in 0..40 {
            error(&whole[..whole.len() * cut / 40]);
        }
        error(&whole[..whole.len() - 1]);
        let cut = error(&whole[..whole.len() / 2]);
        assert!(cut.contains("it is incomplete"), "{cut}");
    }
    let whole = bytes("f4-lz4hc-none.b2nd");
    let chunk = header(&whole);
    let length = (whole.len() as u64 + 1).to_be_bytes();
    // The offset of the array's shape, and of its chunks' shape.
    assert_eq!((whole[0x74], whole[0x74 + 37]), (0xd3, 0xd2));
    let cases: &[(usize, &[u8], &str)] = &[
        (1, b"\xa8b3frame", "not a frame"),
        (11, &[0, 0, 0, 5], "a header of 5 bytes"),
        (11, &[0x7f, 0xff, 0xff, 0xff], "a header of 2147483647 bytes"),
        (11, &[0xff; 4], "a size of -1"),
        (16, &length, "it is incomplete"),
        (39, &[0x7f; 8], "do not fit"),
        (48, &[0; 4], "values of 0 bytes"),
        (48, &[0, 0, 0, 8], "contradicts the header"),
        (58, &[0, 0, 0, 1], "contradicts the header"),
        (30, &[0x10; 8], "contradicts the header"),
        (0x75, &[0x70; 8], "limit"),
        (0x75, &[0; 8], "without values"),
        (0x74, &[0xcf], "0xcf instead of 0xd3"),
        (chunk + 4, &[1, 0, 0, 0], "its header states 1 bytes"),
        (chunk + 8, &[0; 4], "blocks of 0"),
        (chunk + 12, &[0xff, 0xff, 0xff, 0x7f], "are left in the file"),
        (chunk + 12, &[0xff; 4], "a size of -1"),
        (chunk + 32, &[0; 4], "a block lies outside of it"),
        (chunk + 32, &[0xff, 0xff, 0, 0], "a block lies outside of it"),
        (chunk + 32, &[0xff; 4], "a block lies outside of it"),
    ];
    for (at, others, part) in cases {
        let error = error(&with(&whole, *at, others));
        assert!(error.contains(part), "{error} does not say {part}");
    }
    // Any other byte must give an image or an error, not a panic.
    let path = folder.path().join("y.b2nd");
    for name in ["f4-zstd-shuffle.b2nd", "f4-lz4-bits.b2nd", "f4-zlib-none.b2nd", "i1-blosclz-none.b2nd"] {
        let whole = bytes(name);
        for at in (0..whole.len()).step_by(7) {
            fs::write(&path, with(&whole, at, &[whole[at] ^ 0x81])).expect("written");
            if let Err(error) = read_image(&path) {
                assert!(!error.to_string().contains("does not expect"), "{name} at {at}: {error}");
            }
        }
    }
}

/// Zeros take no space, so any file may claim any number of them.
#[test]
fn claims_beyond_what_a_file_can_hold_are_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus/b2nd");
    let error = read_image(corpus.join("huge.b2nd")).expect_err("72 GiB").to_string();
    assert!(error.contains("huge.b2nd") && error.contains("over the limit of"), "{error}");
    // As labels: more than any image has, and in chunks that are larger than their image.
    let folder = tempfile::tempdir().expect("a folder");
    for (name, part) in [("huge_labels.b2nd", "over the limit of"), ("wide_labels.b2nd", "it claims to hold")] {
        let both = fs::read(corpus.join(name)).expect("a file");
        let separator = b"==NEXT FILE==";
        let at = both.windows(separator.len()).position(|window| window == separator).expect("two files");
        fs::write(folder.path().join("case.b2nd"), &both[..at]).expect("written");
        let path = folder.path().join("case_seg.b2nd");
        fs::write(&path, &both[at + separator.len()..]).expect("written");
        let error = read_image(&path).expect_err("refused").to_string();
        assert!(error.contains("case_seg.b2nd") && error.contains(part), "{error} does not say {part}");
    }
}

#[test]
fn labels_belong_to_their_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let (image, labels) = (folder.path().join("case.b2nd"), folder.path().join("case_seg.b2nd"));
    fs::copy(root().join("f4-whole.b2nd"), &image).expect("a copy");
    let missing = preprocessed_shape(&image).expect_err("no labels").to_string();
    assert!(missing.contains("case_seg.b2nd"), "{missing}");
    // Two channels of labels.
    fs::copy(root().join("i1-whole.b2nd"), &labels).expect("a copy");
    for error in [preprocessed_shape(&image).map(|_| ()), read_image(&labels).map(|_| ())] {
        let error = error.expect_err("two channels").to_string();
        assert!(error.contains("case_seg.b2nd") && error.contains("[2, 7, 13, 17]"), "{error}");
    }
    let one = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/nnunet/preprocessed/preprocessed/Dataset011_Blobs/of_blosc2");
    fs::copy(one.join("blob_1.b2nd"), &image).expect("a copy");
    fs::copy(one.join("blob_1_seg.b2nd"), &labels).expect("a copy");
    assert_eq!(preprocessed_shape(&image).expect("a case"), [2, 10, 14, 14]);
    let read = read_image(&labels).expect("labels");
    assert_eq!((read.channels(), read.shape()), (1, [14, 14, 10]));
}
