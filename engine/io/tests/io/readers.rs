//! Tests of readers on files in formats that other programs define, written by the `png` crate, by
//! hand, or by numpy.

use std::path::Path;

use hearth_image::{Image, affine, host_device};
use hearth_io::readers::{Probe, choose, read_image, read_image_with};
use hearth_io::{NiftiOptions, ReadError, ReadOptions, Reader, WriteOptions, readers, write_image, write_nifti};
use libjpeg_turbo_rs::{Encoder, PixelFormat};

fn error(path: impl AsRef<Path>) -> String {
    read_image(path).expect_err("not readable").to_string()
}

/// Writes a PNG of these rows of pixels.
fn png(path: &Path, [width, height]: [u32; 2], color: png::ColorType, depth: png::BitDepth, bytes: &[u8]) {
    let file = std::fs::File::create(path).expect("a file");
    let mut encoder = png::Encoder::new(file, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == png::ColorType::Indexed {
        encoder.set_palette(vec![10, 20, 30, 40, 50, 60, 70, 80, 90]);
    }
    encoder.write_header().and_then(|mut writer| writer.write_image_data(bytes)).expect("written");
}

/// A BMP by the format's description: rows from bottom to top, padded to four bytes.
fn bmp(path: &Path, [width, height]: [u32; 2], bits: u16, palette: &[[u8; 3]], rows: &[&[u8]]) {
    let colours: Vec<u8> = palette.iter().flat_map(|[r, g, b]| [*b, *g, *r, 0]).collect();
    let pixels: Vec<u8> = rows
        .iter()
        .rev()
        .flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(0, row.len().next_multiple_of(4) - row.len())))
        .collect();
    let start = 54 + colours.len() as u32;
    let mut bytes = b"BM".to_vec();
    for word in [start + pixels.len() as u32, 0, start, 40, width, height] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend([1_u16, bits].iter().flat_map(|half| half.to_le_bytes()));
    for word in [0, pixels.len() as u32, 2835, 2835, palette.len() as u32, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(colours);
    bytes.extend(pixels);
    std::fs::write(path, bytes).expect("written");
}

/// A 3 x 2 picture whose pixel at column x, row y is (10 x, 20 y, 7).
fn picture(path: &Path) {
    let row = |y: u8| (0..3_u8).flat_map(move |x| [10 * x, 20 * y, 7]).collect::<Vec<u8>>();
    if path.extension().is_some_and(|end| end == "bmp") {
        let turned = |row: Vec<u8>| row.chunks_exact(3).flat_map(|p| [p[2], p[1], p[0]]).collect::<Vec<u8>>();
        return bmp(path, [3, 2], 24, &[], &[&turned(row(0)), &turned(row(1))]);
    }
    png(path, [3, 2], png::ColorType::Rgb, png::BitDepth::Eight, &[row(0), row(1)].concat());
}

/// Pictures as they come from scanners and drawing programs.
#[test]
fn palettes_are_indices_and_bits_are_0_and_1() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name);
    let values = |name: &str| {
        let image = read_image(path(name)).expect("readable");
        (image.channels(), image.to_vec())
    };
    // As in PIL, the indices of a palette, and single bits as 0 and 1.
    png(&path("palette.png"), [2, 1], png::ColorType::Indexed, png::BitDepth::Eight, &[1, 2]);
    assert_eq!(values("palette.png"), (1, vec![1.0, 2.0]));
    // Two bits for each of five pixels in two rows.
    let rows = [0b00_01_10_00, 0b01_00_00_00, 0b10_10_10_10, 0b00_00_00_00];
    png(&path("two.png"), [5, 2], png::ColorType::Indexed, png::BitDepth::Two, &rows);
    assert_eq!(values("two.png"), (1, vec![0.0, 2.0, 1.0, 2.0, 2.0, 2.0, 0.0, 2.0, 1.0, 0.0]));
    png(&path("bits.png"), [3, 1], png::ColorType::Grayscale, png::BitDepth::One, &[0b1010_0000]);
    assert_eq!(values("bits.png"), (1, vec![1.0, 0.0, 1.0]));
    bmp(&path("colours.bmp"), [3, 1], 8, &[[1, 2, 3], [9, 8, 7]], &[&[1, 0, 1]]);
    assert_eq!(values("colours.bmp"), (1, vec![1.0, 0.0, 1.0]));
    let greys: Vec<[u8; 3]> = (0..=255).map(|grey| [grey; 3]).collect();
    bmp(&path("greys.bmp"), [3, 2], 8, &greys, &[&[5, 6, 7], &[8, 9, 250]]);
    assert_eq!(values("greys.bmp"), (1, vec![5.0, 8.0, 6.0, 9.0, 7.0, 250.0]));
    bmp(&path("bits.bmp"), [10, 2], 1, &[[0; 3], [255; 3]], &[&[0b1100_0000, 0b0100_0000], &[0, 0]]);
    // Run lengths of 8 and of 4 bits: runs, single pixels, ends of rows; as PIL reads them.
    let packed = |name: &str, bits: u16, kind: u8, size: [u32; 2], runs: &[u8]| {
        bmp(&path(name), size, bits, &[[0; 3], [1, 2, 3], [255, 0, 0], [0, 9, 0]], &[runs]);
        let mut bytes = std::fs::read(path(name)).expect("a file");
        bytes[30] = kind;
        std::fs::write(path(name), bytes).expect("written");
    };
    packed("runs.bmp", 8, 1, [4, 2], &[3, 1, 1, 2, 0, 0, 0, 4, 0, 3, 2, 1, 0, 0, 0, 1]);
    assert_eq!(values("runs.bmp"), (1, vec![0.0, 1.0, 3.0, 1.0, 2.0, 1.0, 1.0, 2.0]));
    let runs = [7, 0x22, 0, 0, 0, 7, 0x00, 0x12, 0x33, 0x30, 0, 0, 4, 0x11, 2, 0x22, 1, 0x30, 0, 0, 0, 1];
    packed("halves.bmp", 4, 2, [7, 3], &runs);
    let columns = [[1, 0, 2], [1, 0, 2], [1, 1, 2], [1, 2, 2], [2, 3, 2], [2, 3, 2], [3, 3, 2]];
    assert_eq!(values("halves.bmp"), (1, columns.iter().flatten().map(|index| *index as f32).collect()));
    let (channels, bits) = values("bits.bmp");
    assert_eq!((channels, bits.iter().sum::<f32>(), bits[0], bits[2], bits[18]), (1, 3.0, 1.0, 1.0, 1.0));
}

#[test]
fn jpegs_of_greys_have_one_channel() {
    let dir = tempfile::tempdir().expect("a folder");
    for (kind, channels) in [(PixelFormat::Grayscale, 1), (PixelFormat::Rgb, 3)] {
        let path = dir.path().join(format!("{channels}.jpg"));
        let pixels = vec![120; 16 * 8 * channels];
        let encoded = Encoder::new(&pixels, 16, 8, kind).quality(95).encode().expect("a JPEG");
        std::fs::write(&path, encoded).expect("written");
        let image = read_image(&path).expect("readable");
        assert_eq!(image.data.dims(), [channels, 16, 8, 1]);
        assert!(image.to_vec().iter().all(|value| (value - 120.0).abs() <= 2.0));
    }
}

#[test]
fn pictures_are_width_first_as_pils() {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["a.png", "a.bmp"] {
        let path = dir.path().join(name);
        picture(&path);
        let image = read_image(&path).expect("readable");
        assert_eq!((image.data.dims(), image.meta.spatial_dims), ([3, 3, 2, 1], 2));
        assert_eq!(image.to_vec()[..6], [0.0, 0.0, 10.0, 10.0, 20.0, 20.0]);
        assert_eq!(image.to_vec()[6..12], [0.0, 20.0, 0.0, 20.0, 0.0, 20.0]);
        assert_eq!((image.meta.stored_type.as_str(), &image.meta.original_shape[..]), ("uint8", &[3, 2, 3][..]));
        let mut rows_first = ReadOptions::default();
        rows_first.reverse_indexing = false;
        let image = read_image_with(&path, &rows_first).expect("readable");
        assert_eq!(image.data.dims(), [3, 2, 3, 1]);
        assert_eq!(image.to_vec()[..6], [0.0, 10.0, 20.0, 0.0, 10.0, 20.0]);
    }
}

#[test]
fn sixteen_bits_and_alpha_are_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("deep.png");
    let pixels = (0..2_u16).flat_map(|y| (0..2_u16).flat_map(move |x| [40_000 + x, y]));
    let bytes: Vec<u8> = pixels.flat_map(u16::to_be_bytes).collect();
    png(&path, [2, 2], png::ColorType::GrayscaleAlpha, png::BitDepth::Sixteen, &bytes);
    let image = read_image(&path).expect("readable");
    assert_eq!(image.to_vec(), [40_000.0, 40_000.0, 40_001.0, 40_001.0, 0.0, 1.0, 0.0, 1.0]);
    assert_eq!(image.meta.stored_type, "uint16");
}

#[test]
fn content_decides_before_the_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let lying = dir.path().join("picture.nii");
    picture(&dir.path().join("a.png"));
    std::fs::rename(dir.path().join("a.png"), &lying).expect("renamed");
    assert_eq!(choose(&lying).expect("a reader").name(), "RasterReader");
    assert_eq!(read_image(&lying).expect("readable").channels(), 3);
    let mut nifti = ReadOptions::default();
    nifti.reader = Some("nibabelreader".to_owned());
    let text = read_image_with(&lying, &nifti).expect_err("not NIfTI").to_string();
    assert!(text.contains("picture.nii") && text.contains("sizeof_hdr"), "{text}");
    let zipped = dir.path().join("volume");
    let volume = Image::from_values(vec![1.0; 8], [1, 2, 2, 2], affine::IDENTITY, &host_device());
    write_nifti(dir.path().join("v.nii.gz"), &volume, NiftiOptions::image()).expect("written");
    std::fs::rename(dir.path().join("v.nii.gz"), &zipped).expect("renamed");
    assert_eq!(choose(&zipped).expect("a reader").name(), "NiftiReader");
}

/// The bytes of an NPY file by the format's description, version 1.
fn npy(descr: &str, fortran: bool, shape: &str, values: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(values);
    out
}

fn bytes<const N: usize>(numbers: impl IntoIterator<Item = i16>, to: impl Fn(i16) -> [u8; N]) -> Vec<u8> {
    numbers.into_iter().flat_map(to).collect()
}

#[test]
fn arrays_of_either_order_and_byte_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: Vec<u8>| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let row_major = write("c.npy", npy("<i2", false, "(2, 3)", &bytes(0..6, i16::to_le_bytes)));
    let image = read_image(&row_major).expect("readable");
    assert_eq!((image.data.dims(), image.meta.spatial_dims), ([1, 2, 3, 1], 2));
    assert_eq!(image.to_vec(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let column_major = write("f.npy", npy(">i2", true, "(2, 3)", &bytes([0, 3, 1, 4, 2, 5], i16::to_be_bytes)));
    assert_eq!(read_image(&column_major).expect("readable").to_vec(), image.to_vec());
    // Four axes: the last is the channels.
    let values = bytes(0..24, |v| f64::from(v).to_le_bytes());
    let image = read_image(write("4d.npy", npy("<f8", false, "(2, 2, 3, 2)", &values))).expect("readable");
    assert_eq!(image.data.dims(), [2, 2, 2, 3]);
    assert_eq!(image.to_vec()[..3], [0.0, 2.0, 4.0]);
    assert_eq!(image.to_vec()[12..15], [1.0, 3.0, 5.0]);
}

#[test]
fn damaged_arrays_are_errors() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.npy");
    let whole = npy("<f4", false, "(2, 3)", &[0; 24]);
    for (content, part) in [
        (npy("<f4", false, "(2, 3)", &[0; 20]), "be read"),
        (npy("<f4", false, "(99999999, 99999999, 99999999)", &[0; 4]), "limit"),
        (npy("<f4", false, "(100000, 10000)", &[0; 4]), "promises"),
        (npy("<f4", false, "(6,)", &[0; 24]), "2 to 4 axes"),
        (npy("<c8", false, "(1, 3)", &[0; 24]), "real numbers"),
        (npy("|O", false, "(1, 3)", &[0; 24]), ""),
        (whole[..40].to_vec(), "NPY"),
        (b"\x93NUMPY".to_vec(), "NPY"),
    ] {
        std::fs::write(&path, &content).expect("written");
        let text = error(&path);
        assert!(text.contains("x.npy") && text.contains(part), "{text} does not name {part}");
    }
}

#[test]
fn archives_of_arrays() {
    use std::io::Write;
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.npz");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).expect("created"));
    for (name, first) in [("volume.npy", 5), ("mask.npy", 9)] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).expect("an entry");
        zip.write_all(&npy("<i2", false, "(1, 2)", &bytes([first, first + 1], i16::to_le_bytes))).expect("written");
    }
    zip.finish().expect("finished");
    assert_eq!(read_image(&path).expect("the first by name").to_vec(), [9.0, 10.0]);
    let mut options = ReadOptions::default();
    options.npz_key = Some("volume".to_owned());
    assert_eq!(read_image_with(&path, &options).expect("readable").to_vec(), [5.0, 6.0]);
    options.npz_key = Some("none".to_owned());
    let text = read_image_with(&path, &options).expect_err("no such array").to_string();
    assert!(text.contains("none") && text.contains("mask") && text.contains("volume"), "{text}");
}

#[test]
fn what_nobody_knows_is_an_error_that_lists_what_is_known() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "hello").expect("written");
    assert!(error(&path).contains(".nii.gz"));
    assert!(error(dir.path()).contains("folder"));
    assert!(error(dir.path().join("missing.nii")).contains("missing.nii"));
    let mut options = ReadOptions::default();
    options.reader = Some("RasterRaeder".to_owned());
    let text = read_image_with(&path, &options).expect_err("no such reader").to_string();
    assert!(text.contains("did you mean \"RasterReader\""), "{text}");
}

#[test]
fn cut_pictures_are_errors() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.png");
    picture(&path);
    let whole = std::fs::read(&path).expect("read");
    for length in 0..whole.len() - 12 {
        std::fs::write(&path, &whole[..length]).expect("written");
        assert!(read_image(&path).is_err(), "{length} of {} bytes", whole.len());
    }
}

struct Ones;

impl Reader for Ones {
    fn name(&self) -> &'static str {
        "Ones"
    }

    fn suffixes(&self) -> &[&str] {
        &[".ones"]
    }

    fn recognizes(&self, probe: &Probe<'_>) -> bool {
        probe.start.starts_with(b"ONES")
    }

    fn read(&self, _: &Path, _: &ReadOptions) -> Result<Image, ReadError> {
        Ok(Image::from_values(vec![1.0], [1, 1, 1, 1], affine::IDENTITY, &host_device()))
    }
}

#[test]
fn a_reader_of_ones_own_is_asked_first() {
    readers::register(Ones);
    let dir = tempfile::tempdir().expect("a folder");
    for (name, content) in [("a.ones", "anything"), ("b.nii", "ONES")] {
        std::fs::write(dir.path().join(name), content).expect("written");
        assert_eq!(read_image(dir.path().join(name)).expect("readable").to_vec(), [1.0]);
    }
    assert_eq!(readers::reader_names()[0], "Ones");
}

#[test]
fn what_is_written_comes_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let flat = Image::from_values((0..24).map(|v| v as f32).collect(), [3, 4, 2, 1], affine::IDENTITY, &host_device())
        .with_spatial_dims(2);
    for name in ["a.png", "a.npy", "a.nii.gz"] {
        let path = dir.path().join(name);
        write_image(&path, &flat, &WriteOptions::default()).expect("written");
        let back = read_image(&path).expect("readable");
        assert_eq!(back.to_vec(), flat.to_vec(), "{name}");
    }
    let mut options = WriteOptions::default();
    options.scale = Some(2570.0);
    write_image(dir.path().join("deep.png"), &flat, &options).expect("written");
    assert_eq!(read_image(dir.path().join("deep.png")).expect("readable").to_vec()[23], 23.0 * 2570.0);
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a folder").collect();
    assert_eq!(left.len(), 4, "temporary files are left: {left:?}");
}

#[test]
fn what_a_format_cannot_hold_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let volume = Image::from_values(vec![-1.0; 8], [1, 2, 2, 2], affine::IDENTITY, &host_device());
    let refuse = |name: &str, image: &Image| {
        write_image(dir.path().join(name), image, &WriteOptions::default()).expect_err("refused").to_string()
    };
    assert!(refuse("a.png", &volume).contains("one slice"));
    let flat = Image::from_values(vec![-1.0; 4], [1, 2, 2, 1], affine::IDENTITY, &host_device());
    assert!(refuse("a.png", &flat).contains("0 to 65535"));
    assert!(refuse("a.jpg", &flat).contains(".nii.gz"));
    assert!(refuse("none/a.npy", &flat).contains("none"));
}

/// A chunk of a PNG: length, name, content, checksum.
fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let mut all = (content.len() as u32).to_be_bytes().to_vec();
    all.extend(name);
    all.extend(content);
    all.extend(crc32fast::hash(&all[4..]).to_be_bytes());
    all
}

#[test]
fn the_indices_of_a_broken_palette_are_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("palette.png");
    // One pixel of a palette of four bytes, where each colour has three.
    let header = [0, 0, 0, 1, 0, 0, 0, 1, 8, 3, 0, 0, 0];
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &[0, 0]).expect("packed");
    let parts = [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk(b"IHDR", &header),
        chunk(b"PLTE", &[1, 2, 3, 4]),
        chunk(b"IDAT", &packed.finish().expect("packed")),
        chunk(b"IEND", &[]),
    ];
    std::fs::write(&path, parts.concat()).expect("written");
    assert_eq!(read_image(&path).expect("an index").to_vec(), [0.0]);
    // An index beyond a palette is no colour, and no decoder needs it.
    png(&path, [1, 1], png::ColorType::Indexed, png::BitDepth::Eight, &[200]);
    assert_eq!(read_image(&path).expect("an index").to_vec(), [200.0]);
}

/// Each type, either order of axes and bytes, compared with the values themselves.
#[test]
fn arrays_of_each_type_are_read_in_either_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.npy");
    let write = |descr: &str, fortran: bool, shape: &str, bytes: &[u8]| {
        let order = if fortran { "True" } else { "False" };
        let mut dict = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}");
        dict.push_str(&" ".repeat(117 - dict.len()));
        dict.push('\n');
        let head = [b"\x93NUMPY\x01\x00".as_slice(), &(dict.len() as u16).to_le_bytes(), dict.as_bytes()].concat();
        std::fs::write(&path, [&head, bytes].concat()).expect("written");
        read_image(&path).expect("readable")
    };
    let counted: Vec<u16> = (0..6).collect();
    let little: Vec<u8> = counted.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = counted.iter().flat_map(|v| v.to_be_bytes()).collect();
    let halves: Vec<u8> = counted.iter().flat_map(|v| half::f16::from_f32(f32::from(*v)).to_be_bytes()).collect();
    let in_order = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    assert_eq!(write("<u2", false, "1, 2, 3", &little).to_vec(), in_order);
    assert_eq!(write(">u2", false, "1, 2, 3", &big).to_vec(), in_order);
    assert_eq!(write(">f2", false, "1, 2, 3", &halves).to_vec(), in_order);
    let turned = [0.0, 2.0, 4.0, 1.0, 3.0, 5.0];
    assert_eq!(write("<u2", true, "1, 2, 3", &little).to_vec(), turned);
    assert_eq!(write(">f2", true, "1, 2, 3", &halves).to_vec(), turned);
    // The last of four axes holds the channels.
    let of_channels = write("<u2", false, "1, 1, 3, 2", &little);
    assert_eq!((of_channels.data.dims(), of_channels.to_vec()), ([2, 1, 1, 3], vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0]));
    let of_channels = write("<u2", true, "1, 1, 3, 2", &little);
    assert_eq!(of_channels.to_vec(), in_order);
    assert_eq!(write("|b1", false, "3, 2", &[0, 1, 0, 1, 1, 2]).to_vec(), [0.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
}

/// Its header claims more memory than any process has; its archive, more than deflate can unpack.
#[test]
fn an_image_without_room_is_refused_by_its_figures() {
    let dir = tempfile::tempdir().expect("a folder");
    let sparse = dir.path().join("large.npy");
    let mut dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (2000, 2000, 2000), }".to_owned();
    dict.push_str(&" ".repeat(117 - dict.len()));
    dict.push('\n');
    let head = [b"\x93NUMPY\x01\x00".as_slice(), &(dict.len() as u16).to_le_bytes(), dict.as_bytes()].concat();
    std::fs::write(&sparse, &head).expect("written");
    // 72 GB in all; the file has holes.
    let file = std::fs::OpenOptions::new().write(true).open(&sparse).expect("there");
    file.set_len(head.len() as u64 + 8_000_000_000).expect("a file with a hole");
    if hearth_machine::Allowance::now().free < 72_000_000_000 {
        let error = error(&sparse);
        assert!(error.contains("large.npy") && error.contains("67.1 GiB") && error.contains("are left"), "{error}");
    }
}

#[test]
fn a_picture_that_promises_more_pixels_than_its_bytes_hold_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("large.png");
    // 100,000 by 100,000 pixels of one byte, with no data.
    let header = [0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0, 8, 0, 0, 0, 0];
    let parts = [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header), chunk(b"IDAT", &[]), chunk(b"IEND", &[])];
    std::fs::write(&path, parts.concat()).expect("written");
    let error = error(&path);
    assert!(error.contains("large.png"), "{error}");
}
