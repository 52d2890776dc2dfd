//! Truncated, changed or contradictory files: each yields an error or a volume, never a panic, and
//! never uses much memory.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::{Object, real_data, slice};
use dicom_core::VR;
use dicom_dictionary_std::tags;
use hearth_dicom::{FindingKind, ReadOptions, Regions, read_path, read_stored, scan};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// One test at a time: memory is measured for the process.
static ALONE: Mutex<()> = Mutex::new(());

/// The memory limit for a small file with any header: 16 MiB of decoded samples, and a decoder's
/// own memory.
const MOST: usize = 256 << 20;

/// Reads bytes by every entry point; returns whether any succeeded, and the peak memory.
fn read(folder: &Path, bytes: &[u8]) -> (bool, usize) {
    let path = folder.join("x.dcm");
    std::fs::write(&path, bytes).expect("written");
    let mut options = ReadOptions::default();
    options.accept = vec![FindingKind::MissingSlices, FindingKind::DuplicateSlices, FindingKind::MissingPosition];
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let mut good = false;
    if let Ok(volume) = read_path(&path, &options) {
        assert_eq!(volume.values.len(), volume.shape.iter().product::<usize>());
        good = true;
    }
    good |= read_stored(&path, &options).is_ok();
    if let Ok(regions) = Regions::open(&path, &options) {
        good = true;
        if let Some(Ok(grid)) = regions.own_grid() {
            let _ = regions.labels(&[], &grid, &options);
        }
    }
    good |= scan(&path).is_ok_and(|s| !s.series.is_empty());
    (good, MEMORY.peak_usage().saturating_sub(before))
}

/// Truncates at every 64th part, and changes bytes: in the first kilobytes, which hold the
/// attributes, and everywhere.
fn torture(name: &str, bytes: &[u8], changes: u64, folder: &Path) -> usize {
    let mut worst = 0;
    let mut good = 0;
    let mut tell = |what: String, (fine, memory): (bool, usize)| {
        assert!(memory <= MOST, "{name}, {what}: {memory} bytes");
        worst = worst.max(memory);
        good += usize::from(fine);
    };
    for part in 0..64 {
        tell(format!("cut at {part}/64"), read(folder, &bytes[..bytes.len() * part / 64]));
    }
    for seed in 0..changes {
        // SplitMix64: the same changes every time.
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) as usize
        };
        let mut changed = bytes.to_vec();
        let within = if seed % 2 == 0 { bytes.len().min(3000) } else { bytes.len() };
        for _ in 0..=next() % 6 {
            let at = next() % within;
            changed[at] = match next() % 3 {
                0 => 0xff,
                1 => changed[at] ^ (1 << (next() % 8)),
                _ => next() as u8,
            };
        }
        tell(format!("change {seed}"), read(folder, &changed));
    }
    println!("{name}: {good} of {} still read, at most {worst} bytes", 64 + changes);
    worst
}

/// Small files of every kind, written here.
fn seeds() -> Vec<(&'static str, Object, &'static str)> {
    let deflated = "1.2.840.10008.1.2.1.99";
    let position = |z: f64| {
        let position = Object::item().decimals(tags::IMAGE_POSITION_PATIENT, &[0.0, 0.0, z]);
        let number = Object::item().number(tags::REFERENCED_SEGMENT_NUMBER, 1);
        Object::item()
            .sequence(tags::PLANE_POSITION_SEQUENCE, vec![position])
            .sequence(tags::SEGMENT_IDENTIFICATION_SEQUENCE, vec![number])
    };
    let shared = Object::item()
        .sequence(
            tags::PLANE_ORIENTATION_SEQUENCE,
            vec![Object::item().decimals(tags::IMAGE_ORIENTATION_PATIENT, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0])],
        )
        .sequence(
            tags::PIXEL_MEASURES_SEQUENCE,
            vec![Object::item().decimals(tags::PIXEL_SPACING, &[1.0, 1.0]).decimals(tags::SLICE_THICKNESS, &[1.0])],
        );
    let segmentation = Object::new("1.2.840.10008.5.1.4.1.1.66.4", "SEG")
        .text(tags::NUMBER_OF_FRAMES, VR::IS, "2")
        .text(tags::SEGMENTATION_TYPE, VR::CS, "BINARY")
        .sequence(
            tags::SEGMENT_SEQUENCE,
            vec![Object::item().number(tags::SEGMENT_NUMBER, 1).text(tags::SEGMENT_LABEL, VR::LO, "liver")],
        )
        .sequence(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE, vec![shared])
        .sequence(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, vec![position(0.0), position(3.0)])
        .pixels([8, 4], &[])
        .number(tags::BITS_ALLOCATED, 1)
        .number(tags::BITS_STORED, 1)
        .number(tags::HIGH_BIT, 0)
        .bytes(tags::PIXEL_DATA, &[0xaa; 8]);
    let contour = Object::item()
        .text(tags::CONTOUR_GEOMETRIC_TYPE, VR::CS, "CLOSED_PLANAR")
        .decimals(tags::CONTOUR_DATA, &[0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 3.0, 0.0]);
    let structures = Object::new("1.2.840.10008.5.1.4.1.1.481.3", "RTSTRUCT")
        .sequence(
            tags::STRUCTURE_SET_ROI_SEQUENCE,
            vec![Object::item().text(tags::ROI_NUMBER, VR::IS, "1").text(tags::ROI_NAME, VR::LO, "GTV")],
        )
        .sequence(
            tags::ROI_CONTOUR_SEQUENCE,
            vec![
                Object::item()
                    .text(tags::REFERENCED_ROI_NUMBER, VR::IS, "1")
                    .sequence(tags::CONTOUR_SEQUENCE, vec![contour]),
            ],
        );
    vec![
        ("explicit", slice(1, [0.0; 3]), common::EXPLICIT),
        ("implicit", slice(1, [0.0; 3]), "1.2.840.10008.1.2"),
        ("big endian", slice(1, [0.0; 3]), "1.2.840.10008.1.2.2"),
        ("not deflated though it says so", slice(1, [0.0; 3]), deflated),
        ("segmentation", segmentation, common::EXPLICIT),
        ("contours", structures, common::EXPLICIT),
    ]
}

#[test]
fn written_files_survive() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().expect("a folder");
    for (name, object, syntax) in seeds() {
        let path = folder.path().join("seed.dcm");
        let plain = if name.starts_with("not deflated") { common::EXPLICIT } else { syntax };
        object.write_as(&path, plain);
        let mut bytes = std::fs::read(&path).expect("written");
        if plain != syntax {
            // The UID's length stays even.
            let at =
                bytes.windows(plain.len() + 1).position(|w| w == [plain.as_bytes(), b"\0"].concat()).expect("named");
            let end = at + plain.len() + 1;
            bytes.splice(at..end, syntax.bytes());
            bytes[at - 2] = syntax.len() as u8;
        } else {
            assert!(read(folder.path(), &bytes).0, "{name} reads as it is");
        }
        torture(name, &bytes, 200, folder.path());
    }
}

#[test]
fn a_small_file_can_not_claim_gigabytes() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("big.dcm");
    let huge = slice(1, [0.0; 3]).number(tags::ROWS, 65_000).number(tags::COLUMNS, 4_000);
    huge.write(&path);
    let (good, memory) = read(folder.path(), &std::fs::read(&path).expect("written"));
    assert!(!good && memory < 1 << 20, "{memory}");
    let error = read_path(&path, &ReadOptions::default()).expect_err("too few");
    assert!(error.to_string().contains("too few"), "{error}");
    // A tiny compressed stream: the same in run lengths, JPEG, JPEG-LS, JPEG 2000.
    for syntax in ["5", "4.50", "4.57", "4.80", "4.90", "4.201", "8.1"] {
        let mut bare = huge.clone();
        bare.0.remove_element(tags::PIXEL_DATA);
        bare.write_as(&path, &format!("1.2.840.10008.1.2.{syntax}"));
        let mut bytes = std::fs::read(&path).expect("written");
        bytes.extend(b"\xe0\x7f\x10\x00OB\x00\x00\xff\xff\xff\xff\xfe\xff\x00\xe0\x00\x00\x00\x00\xfe\xff\x00\xe0\x80\x00\x00\x00");
        bytes.extend([2, 0, 0, 0].iter().chain(&[0; 124]));
        bytes.extend(b"\xfe\xff\xdd\xe0\x00\x00\x00\x00");
        let (_, memory) = read(folder.path(), &bytes);
        assert!(memory < 1 << 20, "{syntax}: {memory}");
        std::fs::write(&path, &bytes).expect("written");
        let error = read_path(&path, &ReadOptions::default()).expect_err("not gigabytes").to_string();
        assert!(error.contains("claim to become 520000000"), "{syntax}: {error}");
    }
}

/// Real files of every transfer syntax, and objects that are not images.
#[test]
#[ignore = "needs the folder of real files (HEARTH_REAL_DATA)"]
fn real_files_survive() {
    let _alone = ALONE.lock();
    let root = real_data().join("dicom");
    let mut files: Vec<PathBuf> = ["ct_tiny_4slice/17106.dcm", "rt/rtdose.dcm", "rt/rtdose_rle.dcm", "rt/rtstruct.dcm"]
        .into_iter()
        .chain(["ct_rtstruct_2slice/rt.dcm", "seg/sparse-labelmap-noppv.dcm", "seg/seg_image_ct_binary_overlap.dcm"])
        .map(|name| root.join(name))
        .collect();
    for folder in ["transfer_syntax", "enhanced_multiframe", "malformed"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("a folder") {
            files.push(entry.expect("a file").path());
        }
    }
    files.sort();
    let folder = tempfile::tempdir().expect("a folder");
    let mut worst = 0;
    for path in &files {
        let bytes = std::fs::read(path).expect("a file");
        let changes = if bytes.len() > 100_000 { 20 } else { 120 };
        worst = worst.max(torture(&path.display().to_string(), &bytes, changes, folder.path()));
    }
    println!("{} files, at most {worst} bytes", files.len());
    assert!(files.len() > 40);
}
