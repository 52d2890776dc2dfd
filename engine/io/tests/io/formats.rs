//! Files of nibabel 5.4.2 (MGH, Analyze, NIfTI) and SimpleITK 2.5.7 (4-D MetaImage and NRRD), read and
//! compared with what these clients read. The voxel `x, y, z, t` of all has the value of [`voxel`].

use std::fs;
use std::path::{Path, PathBuf};

use hearth_image::{Affine, Image, affine, host_device};
use hearth_io::nifti::{DataType, read_header};
use hearth_io::readers::{choose, companions};
use hearth_io::{NiftiOptions, WriteOptions, read_image, read_nifti, write_image, write_nifti};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/volumes").join(name)
}

fn error(path: impl AsRef<Path>) -> String {
    read_image(path).expect_err("not readable").to_string()
}

/// The value of the recorded arrays of 4 x 3 x 2 voxels in two frames.
fn voxel([x, y, z, t]: [usize; 4]) -> f32 {
    ((((x * 3 + y) * 2 + z) * 2 + t) * 7 % 51) as f32 - 9.0
}

/// The values `[T, X, Y, Z]` of the first frames.
fn values(frames: usize) -> Vec<f32> {
    let of_frame = |t: usize| (0..24).map(move |at| voxel([at / 6, at / 2 % 3, at % 2, t]));
    (0..frames).flat_map(of_frame).collect()
}

fn assert_affine(image: &Image, rows: [[f64; 4]; 3], what: &str) {
    let expected: Affine = [rows[0], rows[1], rows[2], affine::IDENTITY[3]];
    assert!(affine::distance(&image.affine, &expected) < 1e-5, "{what}: {:?}, expected {expected:?}", image.affine);
}

#[test]
fn volumes_of_freesurfer_are_those_of_nibabel() {
    let image = read_image(recorded("frames.mgz")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((image.data.dims(), image.to_vec()), ([2, 4, 3, 2], values(2)));
    assert_eq!((image.meta.stored_type.as_str(), &image.meta.original_shape[..]), ("int16", &[4, 3, 2, 2][..]));
    assert_affine(&image, [[-0.9, 0.1, 0.2, 12.5], [0.15, 0.3, -1.9, -20.25], [0.05, -0.95, -0.4, 33.0]], "frames");
    let image = read_image(recorded("unplaced.mgh")).unwrap_or_else(|error| panic!("{error}"));
    let halves: Vec<f32> = values(1).iter().map(|value| value / 2.0).collect();
    assert_eq!((image.data.dims(), image.to_vec()), ([1, 4, 3, 2], halves));
    assert_affine(&image, [[-1.0, 0.0, 0.0, 2.0], [0.0, 0.0, -1.0, 1.0], [0.0, 1.0, 0.0, -1.5]], "unplaced");
}

#[test]
fn damaged_volumes_of_freesurfer_name_file_and_reason() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.mgh");
    let good = fs::read(recorded("unplaced.mgh")).expect("a file");
    let said = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("written");
        let error = error(&path);
        assert!(error.contains("a.mgh"), "{error}");
        error
    };
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        bad
    };
    assert!(said(&good[..100]).contains("100 of 284"));
    assert!(said(&good[..300]).contains("ends after 300"));
    assert!(said(&with(0, &2_i32.to_be_bytes())).contains("version is 2"));
    assert!(said(&with(8, &0_i32.to_be_bytes())).contains("expected 1 or more"));
    assert!(said(&with(4, &i32::MAX.to_be_bytes().repeat(4))).contains("limit"));
    assert!(said(&with(20, &2_i32.to_be_bytes())).contains("type of its values is 2"));
    let mut flat = with(28, &1_i16.to_be_bytes());
    flat[30..90].fill(0);
    assert!(said(&flat).contains("make no volume"));
}

#[test]
fn pairs_of_analyze_are_those_of_nibabel() {
    for (name, rows, scaled, frames) in [
        ("analyze", [[-1.5, 0.0, 0.0, 2.25], [0.0, 2.0, 0.0, -2.0], [0.0, 0.0, 2.5, -1.25]], [1.0, 0.0], 1),
        ("spm", [[-1.5, 0.0, 0.0, 1.5], [0.0, 2.0, 0.0, -4.0], [0.0, 0.0, 2.5, 0.0]], [0.5, 0.0], 1),
        ("calibrated", [[-1.0, 0.0, 0.0, 1.5], [0.0, 2.0, 0.0, -2.0], [0.0, 0.0, 3.0, -1.5]], [0.04, 1.36], 2),
    ] {
        for end in ["hdr", "img"] {
            let image = read_image(recorded(&format!("{name}.{end}"))).unwrap_or_else(|error| panic!("{error}"));
            assert_affine(&image, rows, name);
            let expected = values(frames).into_iter().map(|value| value * scaled[0] + scaled[1]);
            let found = image.to_vec();
            assert_eq!(found.len(), 24 * frames, "{name}");
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{name}: {found:?}");
            let header = image.meta.header.as_ref().expect("a header");
            assert!(header.analyze && header.big_endian == (name == "calibrated"), "{name}");
        }
    }
}

/// Next to `analyze.img`; the files of scipy 1.17 (MATLAB 4, and 5 with other variables before them and an
/// affine for each frame), and the numbers of bytes that MATLAB makes of whole numbers.
#[test]
fn affines_of_spm_are_those_of_nibabel() {
    let turned = [
        [-1.433_004_733_688_409, 0.5, 0.0, 19.316_995_266_311_59],
        [0.443_280_309_920_009_3, 1.910_672_978_251_212, 0.25, -9.396_046_711_756_778],
        [0.0, 0.0, 2.5, 10.0],
    ];
    // The first axis of `M` runs the other way.
    let mirrored = [turned[0].map(|value| -value), turned[1], turned[2]];
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for end in ["hdr", "img"] {
        fs::copy(recorded(&format!("analyze.{end}")), at("a").with_extension(end)).expect("copied");
    }
    for (name, rows) in [
        ("affine_v4", mirrored),
        ("affine_v4_big", turned),
        ("affine_v5", turned),
        ("affine_v5_bytes", [[-2.0, 0.0, 0.0, 3.0], [0.0, 2.0, 0.0, -4.0], [0.0, 0.0, 3.0, -5.0]]),
    ] {
        fs::copy(recorded(&format!("{name}.mat")), at("a.mat")).expect("copied");
        for end in ["hdr", "img"] {
            let image = read_image(at("a").with_extension(end)).unwrap_or_else(|error| panic!("{error}"));
            assert_affine(&image, rows, name);
            assert_eq!(image.to_vec(), values(1), "{name}");
        }
        let header = read_header(at("a.img")).expect("a header");
        assert!(
            header.analyze
                && affine::distance(&header.affine(), &[rows[0], rows[1], rows[2], affine::IDENTITY[3]]) < 1e-5
        );
    }
    assert_eq!(companions(&at("a.hdr")), [at("a.img"), at("a.mat")]);
    // Files that cannot be read are not used, wherever they end.
    let without = read_image(recorded("analyze.img")).expect("readable").affine;
    for name in ["affine_v4", "affine_v5", "affine_v5_bytes"] {
        let whole = fs::read(recorded(&format!("{name}.mat"))).expect("a file");
        for length in 0..whole.len() {
            fs::write(at("a.mat"), &whole[..length]).expect("written");
            let image = read_image(at("a.img")).unwrap_or_else(|error| panic!("{error}"));
            let is_whole = image.affine != without;
            assert!(!is_whole || length > 100, "{name}, {length} bytes");
        }
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 0xff;
            fs::write(at("a.mat"), damaged).expect("written");
            read_image(at("a.img")).unwrap_or_else(|error| panic!("{name}, byte {byte}: {error}"));
        }
    }
}

/// A label map in each format, in which SimpleITK 2.5.7, pynrrd 1.1.3 (`written.nrrd`) and nibabel 5.4.2
/// (`written.mgz`) read these labels, this affine and these types: headers and labels are the same again.
#[test]
fn label_maps_are_written_as_other_programs_read_them() {
    let rows = [[3.0, -2.0, 0.0, 10.5], [4.0, 1.5, 0.0, -20.25], [0.0, 0.0, 2.0, 33.0]];
    let values: Vec<f32> = (0..24_u8).map(|place| 89.0 * f32::from(place)).collect();
    let affine = [rows[0], rows[1], rows[2], affine::IDENTITY[3]];
    let image = Image::from_values(values.clone(), [1, 4, 3, 2], affine, &host_device());
    let dir = tempfile::tempdir().expect("a folder");
    let unpack = |packed: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        packed.read_to_end(&mut bytes).expect("packed");
        bytes
    };
    // The header as text, and the labels as bytes.
    let parts = |path: &Path, end: &str| -> (String, Vec<u8>) {
        let bytes = fs::read(path).expect("a file");
        let mark: &[u8] = if end == "nrrd" { b"\n\n" } else { b"LOCAL\n" };
        let at = bytes.windows(mark.len()).position(|part| part == mark).map_or(0, |at| at + mark.len());
        let (head, mut packed) = bytes.split_at(at);
        let head = String::from_utf8_lossy(head).into_owned();
        // The size of packed bytes is that of the packing library.
        let head = head.lines().filter(|line| !line.starts_with("CompressedDataSize")).collect::<Vec<_>>().join("\n");
        let labels = match end {
            "mha" => unpack(&mut flate2::read::ZlibDecoder::new(&mut packed)),
            _ => unpack(&mut flate2::read::GzDecoder::new(&mut packed)),
        };
        (head, labels)
    };
    for (end, stored) in [("nrrd", "uint16"), ("mha", "uint16"), ("mgz", "int32")] {
        let path = dir.path().join(format!("labels.{end}"));
        write_image(&path, &image, &WriteOptions::label()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(parts(&path, end), parts(&recorded(&format!("written.{end}")), end), "{end}");
        let read = read_image(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((read.to_vec(), read.meta.stored_type.as_str()), (values.clone(), stored), "{end}");
        assert_affine(&read, rows, end);
    }
}

/// The bytes of `frames.mgz` are those of nibabel.
#[test]
fn volumes_of_freesurfer_are_written_as_by_nibabel() {
    let dir = tempfile::tempdir().expect("a folder");
    let unpacked = |path: PathBuf| {
        let mut bytes = Vec::new();
        let file = fs::File::open(path).expect("a file");
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut bytes).expect("gzip");
        bytes
    };
    let expected = unpacked(recorded("frames.mgz"));
    let image = read_image(recorded("frames.mgz")).unwrap_or_else(|error| panic!("{error}"));
    let path = dir.path().join("a.mgz");
    let options = WriteOptions::default().nifti(NiftiOptions::default().data_type(DataType::I16));
    write_image(&path, &image, &options).expect("written");
    let found = unpacked(path);
    // Version, axes, type, and that it is placed; then sizes, directions and centre; then the values.
    assert_eq!((&found[..30], &found[284..]), (&expected[..30], &expected[284..284 + 96]));
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes[30..90].chunks(4).map(|word| f32::from_be_bytes(word.try_into().expect("four"))).collect()
    };
    let apart = floats(&found).iter().zip(floats(&expected)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 1e-5, "{apart}");
    // Labels that do not fit into int16 become int32, and others are f32.
    for (label, options, stored) in [
        (200.0, WriteOptions::label(), "uint8"),
        (12_345.0, WriteOptions::label(), "int32"),
        (-300.0, WriteOptions::label(), "int16"),
        (0.25, WriteOptions::default(), "float32"),
    ] {
        let one = Image::from_values(vec![label, 0.0], [1, 2, 1, 1], image.affine, &host_device());
        let path = dir.path().join(format!("{stored}.mgh"));
        write_image(&path, &one, &options).expect("written");
        let again = read_image(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((again.to_vec(), again.meta.stored_type.as_str()), (one.to_vec(), stored));
        assert!(affine::distance(&again.affine, &image.affine) < 1e-4);
    }
}

#[test]
fn half_a_pair_and_a_header_without_magic_are_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::copy(recorded("analyze.img"), at("a.img")).expect("copied");
    assert!(error(at("a.img")).contains("no") && error(at("a.img")).contains("a.hdr"), "{}", error(at("a.img")));
    fs::copy(recorded("analyze.hdr"), at("b.hdr")).expect("copied");
    assert!(error(at("b.hdr")).contains("b.img"));
    fs::copy(recorded("analyze.hdr"), at("c.nii")).expect("copied");
    assert!(error(at("c.nii")).contains("no magic"));
    let mut bytes = fs::read(recorded("analyze.hdr")).expect("a file");
    bytes[344..348].copy_from_slice(b"ni3\0");
    fs::write(at("a.hdr"), bytes).expect("written");
    assert!(error(at("a.img")).contains("magic"), "a damaged NIfTI header is not one of Analyze");
}

#[test]
fn formats_that_are_not_read_are_named_with_what_converts_them() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, said) in [("a.mnc", "mnc2nii"), ("a.PAR", "dcm2niix"), ("a.gipl", "SimpleITK"), ("a.gipl.gz", "GIPL")] {
        let path = dir.path().join(name);
        fs::write(&path, b"anything").expect("written");
        assert!(error(&path).contains(said), "{}", error(&path));
    }
}

/// The affine of the 4-D files, in RAS: a turn by 0.3 about z.
const TURNED: [[f64; 4]; 3] = [
    [-0.477_668_244_562_803, 0.221_640_154_996_004_65, 0.0, -1.0],
    [-0.147_760_103_330_669_77, -0.716_502_366_844_204_5, 0.0, -2.0],
    [0.0, 0.0, 2.0, 3.0],
];

#[test]
fn frames_of_itk_are_channels() {
    for name in ["frames.mha", "frames.nrrd"] {
        let image = read_image(recorded(name)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((image.data.dims(), image.to_vec()), ([2, 4, 3, 2], values(2)), "{name}");
        assert_eq!((image.meta.stored_type.as_str(), image.meta.original_channel_dim), ("int16", Some(-1)), "{name}");
        assert_affine(&image, TURNED, name);
    }
    for name in ["flat.nrrd", "flat.mha"] {
        let image = read_image(recorded(name)).unwrap_or_else(|error| panic!("{error}"));
        let slice: Vec<f32> = (0..12).map(|at| voxel([at / 3, at % 3, 0, 0])).collect();
        assert_eq!((image.data.dims(), image.meta.spatial_dims), ([1, 4, 3, 1], 2), "{name}");
        assert_eq!(image.to_vec(), slice, "{name}");
        assert_affine(&image, [[-0.5, 0.0, 0.0, -1.0], [0.0, -0.75, 0.0, -2.0], [0.0, 0.0, 1.0, 0.0]], name);
    }
}

/// An NRRD without directions, as SimpleITK places it.
#[test]
fn starts_of_axes_are_those_of_itk() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.nrrd");
    let read = |more: &str| {
        let head = "NRRD0005\ntype: int16\ndimension: 3\nsizes: 2 1 1\nencoding: text\n";
        fs::write(&path, format!("{head}{more}\n\n1 2\n")).expect("written");
        read_image(&path).map_err(|error| error.to_string())
    };
    let rows = |x: f64, y: f64, z: f64| [[-2.0, 0.0, 0.0, x], [0.0, -3.0, 0.0, y], [0.0, 0.0, 4.0, z]];
    let image = read("spacings: 2 3 4\naxis mins: 10 20 30").expect("readable");
    assert_affine(&image, rows(-11.0, -21.5, 32.0), "cells");
    let image = read("spacings: 2 3 4\naxis mins: 10 20 30\ncenters: node node node").expect("readable");
    assert_affine(&image, rows(-10.0, -20.0, 30.0), "nodes");
    assert!(read("axis mins: 10 20 30\naxis maxs: 20 40 60").expect_err("no spacings").contains("axis mins"));
}

/// As teem and SimpleITK read it, also where the voxels are packed.
#[test]
fn lines_and_bytes_before_voxels_are_skipped() {
    let dir = tempfile::tempdir().expect("a folder");
    let head = "NRRD0004\ntype: short\ndimension: 3\nsizes: 4 3 2\nendian: little\n";
    let mut packed = flate2::write::GzEncoder::new(b"a\nbc\n".to_vec(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &slices(0..2)).expect("packed");
    fs::write(dir.path().join("a.gz"), packed.finish().expect("packed")).expect("written");
    fs::write(dir.path().join("a.raw"), [b"a\nbc\nxyz".to_vec(), slices(0..2)].concat()).expect("written");
    let read = |more: &str| {
        fs::write(dir.path().join("a.nhdr"), format!("{head}{more}\n")).expect("written");
        read_image(dir.path().join("a.nhdr")).map(|image| image.to_vec()).map_err(|error| error.to_string())
    };
    assert_eq!(read("encoding: raw\nline skip: 2\nbyte skip: 3\ndata file: a.raw"), Ok(values(1)));
    assert_eq!(read("encoding: raw\nbyte skip: -1\ndata file: a.raw"), Ok(values(1)));
    assert_eq!(read("encoding: gzip\nline skip: 2\ndata file: a.gz"), Ok(values(1)));
    for (more, said) in [
        ("encoding: raw\nline skip: 99\ndata file: a.raw", "less than the 99 lines"),
        ("encoding: raw\nline skip: 1\nbyte skip: -1\ndata file: a.raw", "1 lines and -1 bytes"),
        ("encoding: gzip\nbyte skip: 3\ndata file: a.gz", "bytes of packed voxels"),
    ] {
        let error = read(more).expect_err(more);
        assert!(error.contains(said), "{error}");
    }
    // Numbers with commas between them.
    fs::write(
        dir.path().join("a.nrrd"),
        "NRRD0004\ntype: double\ndimension: 2\nsizes: 2 2\nencoding: ascii\n\n1.5, 2e3\n-1 ,4\n",
    )
    .expect("written");
    assert_eq!(read_image(dir.path().join("a.nrrd")).expect("readable").to_vec(), [1.5, -1.0, 2000.0, 4.0]);
}

#[test]
fn axes_that_mix_space_and_time_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let changed = |name: &str, from: &str, to: &str| {
        let bytes = fs::read(recorded(name)).expect("a file");
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).expect("the text");
        let path = dir.path().join(name);
        fs::write(&path, [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()).expect("written");
        error(path)
    };
    assert!(changed("frames.nrrd", "(0,0,2,0)", "(0,0,2,1)").contains("in time"));
    assert!(changed("frames.nrrd", "(0,0,0,1.5)", "(0,1,0,1.5)").contains("axis 3"));
    assert!(changed("frames.nrrd", "space dimension: 4", "space dimension: 9").contains("space dimension"));
    assert!(changed("frames.mha", "0 0 0 0 1\n", "0 0 1 0 1\n").contains("TransformMatrix"));
    assert!(changed("frames.mha", "NDims = 4", "NDims = 8").contains("expected 2 to 7"));
}

/// A header of each kind for the files of [`values`]: two slices of 4 x 3 voxels.
fn header(kind: &str, data: &str) -> String {
    match kind {
        "mhd" => format!(
            "ObjectType = Image\nNDims = 3\nDimSize = 4 3 2\nElementType = MET_SHORT\nElementDataFile = {data}\n"
        ),
        _ => format!(
            "NRRD0004\ntype: short\ndimension: 3\nsizes: 4 3 2\nendian: little\nencoding: raw\ndata file: {data}\n"
        ),
    }
}

/// The bytes of slices.
fn slices(range: std::ops::Range<usize>) -> Vec<u8> {
    let of_slice = |z: usize| (0..12).map(move |at| voxel([at % 4, at / 4, z, 0]) as i16);
    range.flat_map(of_slice).flat_map(i16::to_le_bytes).collect()
}

#[test]
fn slices_in_files_of_their_own_are_one_volume() {
    let dir = tempfile::tempdir().expect("a folder");
    let put = |name: &str, bytes: Vec<u8>| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("written");
    };
    for (z, name) in [(0, "s_004.raw"), (1, "s_006.raw"), (0, "below/1.raw"), (1, "below/2.raw")] {
        put(name, slices(z..z + 1));
    }
    put("below/all.raw", slices(0..2));
    let read = |kind: &str, data: &str| {
        let path = dir.path().join(format!("a.{kind}"));
        fs::write(&path, header(kind, data)).expect("written");
        read_image(&path).map(|image| image.to_vec()).map_err(|error| error.to_string())
    };
    // Each was read by SimpleITK with these values.
    for (kind, data) in [
        ("mhd", "LIST\ns_004.raw\ns_006.raw"),
        ("mhd", "LIST 2\nbelow/1.raw\nbelow/2.raw"),
        ("mhd", "LIST 2D\r\ns_004.raw\r\ns_006.raw"),
        ("mhd", "s_%03d.raw 4 6 2"),
        ("mhd", "below/%d.raw"),
        ("mhd", "below/%d.raw 1"),
        ("mhd", "below/all.raw"),
        ("nhdr", "LIST\ns_004.raw\ns_006.raw"),
        ("nhdr", "LIST 2\ns_004.raw\ns_006.raw"),
        ("nhdr", "LIST 3\ns_004.raw\ns_006.raw"),
        ("nhdr", "s_%03d.raw 4 6 2"),
        ("nhdr", "below/%d.raw 1 2 1 2"),
        ("nhdr", "below/all.raw"),
    ] {
        assert_eq!(read(kind, data), Ok(values(1)), "{kind}: {data}");
    }
    for (kind, data, said) in [
        ("mhd", "LIST\ns_004.raw", "lists 1 files, and its sizes need 2"),
        ("mhd", "LIST\ns_004.raw\ns_006.raw\nbelow/1.raw", "lists 3 files"),
        ("mhd", "LIST 4\ns_004.raw", "number of axes"),
        ("mhd", "LIST\n../a.raw\n/etc/passwd", "../a.raw"),
        ("mhd", "LIST\ns_004.raw\nmissing.raw", "missing.raw"),
        ("mhd", "LIST\ns_004.raw\nbelow/all.raw\n", ""),
        ("mhd", "s_%03d.raw 4 6 1", "not that of its slices"),
        ("mhd", "s_%03d.raw a b", "the first number"),
        ("mhd", "s_%s.raw 4 6 2", "slice_%03d.raw"),
        ("nhdr", "LIST\ns_004.raw", "lists 1 files"),
        ("nhdr", "LIST 3", "divide the last axis"),
        ("nhdr", "s_%03d.raw 4 6 1", "not that of its slices"),
        ("nhdr", "/etc/passwd", "header's folder"),
    ] {
        match read(kind, data) {
            // A file may be longer than its part.
            Ok(_) => assert!(said.is_empty(), "{kind}: {data}"),
            Err(error) => {
                let names_both = error.contains(said) && error.contains(&format!("a.{kind}"));
                assert!(!said.is_empty() && names_both, "{kind}: {data}: {error}");
            }
        }
    }
    put("s_006.raw", slices(0..1)[..20].to_vec());
    let error = read("mhd", "LIST\ns_004.raw\ns_006.raw").expect_err("too short");
    assert!(error.contains("s_006.raw") && error.contains("20 of 24"), "{error}");
}

#[test]
fn files_that_belong_to_a_header_are_known() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    for name in ["1.raw", "2.raw", "a.hdr", "a.img"] {
        fs::write(at(name), slices(0..1)).expect("written");
    }
    for (kind, data) in
        [("mhd", "LIST\n1.raw\n2.raw"), ("nhdr", "LIST\n1.raw\n2.raw"), ("mhd", "%d.raw"), ("nhdr", "%d.raw 1 2 1")]
    {
        fs::write(at("h").with_extension(kind), header(kind, data)).expect("written");
        assert_eq!(companions(&at("h").with_extension(kind)), [at("1.raw"), at("2.raw")], "{kind}: {data}");
    }
    assert_eq!(companions(&at("a.hdr")), [at("a.img")]);
    assert_eq!(companions(&at("a.img")), [at("a.hdr")]);
    assert!(companions(&recorded("plain.mha")).is_empty() && companions(&recorded("frames.mgz")).is_empty());
}

#[test]
fn whole_numbers_that_would_merge_are_refused_in_every_format() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    // Two ids of instances that f32 would make one, behind one that it holds.
    let ids = [16_777_216_u32, 16_777_217];
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let zeros = Image::from_values(vec![0.0; 2], [1, 2, 1, 1], affine::IDENTITY, &host_device());
    let nifti = |name: &str, scaled: bool| {
        let options = NiftiOptions::image().data_type(DataType::U32);
        let options = if scaled { options.scaling(0.5, 0.0) } else { options };
        write_nifti(at(name), &zeros, options).expect("written");
        let mut whole = fs::read(at(name)).expect("a file");
        let start = whole.len() - bytes.len();
        whole[start..].copy_from_slice(&bytes);
        fs::write(at(name), whole).expect("written");
    };
    nifti("a.nii", false);
    nifti("scaled.nii", true);
    let head = |text: &str, more: &[u8]| [text.as_bytes(), more].concat();
    let mha = "ObjectType = Image\nNDims = 2\nDimSize = 2 1\nElementType = MET_UINT\nElementDataFile = LOCAL\n";
    let nrrd = "NRRD0004\ntype: uint\ndimension: 2\nsizes: 2 1\nendian: little\nencoding: raw\n\n";
    fs::write(at("a.mha"), head(mha, &bytes)).expect("written");
    fs::write(at("a.nrrd"), head(nrrd, &bytes)).expect("written");
    fs::write(at("b.nrrd"), head(&nrrd.replace("raw", "text"), b"16777216 16777217")).expect("written");
    let dict = "{'descr': '<u4', 'fortran_order': False, 'shape': (2, 1), }\n";
    let npy = [b"\x93NUMPY\x01\x00".as_slice(), &(dict.len() as u16).to_le_bytes(), dict.as_bytes()].concat();
    fs::write(at("a.npy"), [npy.as_slice(), &bytes].concat()).expect("written");
    let mut mgh = fs::read(recorded("unplaced.mgh")).expect("a file");
    mgh.truncate(284);
    for (place, word) in [(4, 2_i32), (8, 1), (12, 1), (16, 1), (20, 1)] {
        mgh[place..place + 4].copy_from_slice(&word.to_be_bytes());
    }
    mgh.extend(ids.iter().flat_map(|id| id.to_be_bytes()));
    fs::write(at("a.mgh"), mgh).expect("written");
    for name in ["a.nii", "a.mha", "a.nrrd", "b.nrrd", "a.npy", "a.mgh"] {
        let error = error(at(name));
        assert!(error.contains(name) && error.contains("16777217") && error.contains("2^24"), "{error}");
    }
    // Scaled values are no ids.
    assert_eq!(read_image(at("scaled.nii")).expect("readable").to_vec(), [8_388_608.0; 2]);
}

#[test]
fn fields_of_a_header_come_back_as_they_went() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("again.nii.gz");
    let source = read_header(recorded("fields.nii.gz")).expect("a header");
    // As nibabel reads them.
    assert_eq!((source.cal, source.toffset, source.xyzt_units), ([30.0, -5.0], 2.5, 18));
    assert_eq!((source.intent_code, &source.intent_name[..11]), (1001, &b"an estimate"[..]));
    assert_eq!((&source.aux_file[..8], &source.descrip[..13]), (&b"lut.txt\0"[..], &b"a description"[..]));
    assert_eq!((source.dim_info, source.slices, source.slice_code, source.slice_duration), (57, [0, 1], 3, 0.5));
    assert_eq!((source.sform_code, source.qform_code, &source.dim[..]), (4, 1, &[4, 3, 2, 2][..]));
    let image = read_nifti(recorded("fields.nii.gz")).expect("readable");
    write_image(&path, &image, &WriteOptions::default()).expect("written");
    let mut again = read_header(&path).expect("a header");
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(close(again.srow.as_flattened(), source.srow.as_flattened()) && close(&again.pixdim, &source.pixdim));
    // The matrix has shear, of which a quaternion keeps nothing.
    assert_eq!(again.qform_code, 0);
    (again.srow, again.pixdim, again.quatern) = (source.srow, source.pixdim, source.quatern);
    (again.qform_code, again.datatype, again.qoffset) = (source.qform_code, source.datatype, source.qoffset);
    (again.scl_slope, again.scl_inter) = (source.scl_slope, source.scl_inter);
    assert_eq!(again, source);
}

#[test]
fn what_an_image_means_is_not_written_with_other_values() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("other.nii.gz");
    let image = read_nifti(recorded("fields.nii.gz")).expect("readable");
    // Labels on the grid of the image, as a prediction has them.
    let mut labels = image.clone();
    labels.data = image.data.clone().narrow(0, 0, 1).mul_scalar(0.0).add_scalar(3.0);
    write_nifti(&path, &labels, NiftiOptions::label()).expect("written");
    let header = read_header(&path).expect("a header");
    assert_eq!((header.cal, header.intent_code, header.intent_name, header.aux_file), ([0.0; 2], 0, [0; 16], [0; 24]));
    assert_eq!((header.xyzt_units, header.dim_info, &header.descrip[..13]), (18, 57, &b"a description"[..]));
    // Scaled to 0 to 1, on another grid.
    let mut scaled = image.clone();
    scaled.data = image.data.clone().add_scalar(9.0).div_scalar(50.0);
    scaled.affine[0][3] += 5.0;
    write_nifti(&path, &scaled, NiftiOptions::image()).expect("written");
    let header = read_header(&path).expect("a header");
    assert_eq!((header.cal, header.intent_code, header.dim_info, header.slice_code), ([0.0; 2], 1001, 0, 0));
    // Labels that the file itself calls labels keep what it says of them.
    let mut own = labels;
    let mut source = (**image.meta.header.as_ref().expect("a header")).clone();
    (source.intent_code, source.cal) = (1002, [3.0, 3.0]);
    own.meta.header = Some(source.into());
    write_nifti(&path, &own, NiftiOptions::label()).expect("written");
    let header = read_header(&path).expect("a header");
    assert_eq!((header.intent_code, &header.intent_name[..11]), (1002, &b"an estimate"[..]));
}

#[test]
fn readers_are_chosen_for_the_new_formats() {
    for (name, reader) in [
        ("frames.mgz", "MghReader"),
        ("unplaced.mgh", "MghReader"),
        ("analyze.hdr", "NiftiReader"),
        ("spm.img", "NiftiReader"),
    ] {
        assert_eq!(choose(&recorded(name)).expect("a reader").name(), reader, "{name}");
    }
}
