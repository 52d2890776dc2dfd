//! Damaged files of every kind: none makes a reader panic, and none makes it allocate more than is
//! stated here. The same inputs each time; `HEARTH_FUZZ=1000000` tries so many of each kind, and
//! `HEARTH_FUZZ_KEEP=DIR` keeps of each kind the input that took the most memory.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_fuzz::{Mutator, peak_of};

/// Where a reader fails for all inputs, as a server that has ended does, it does not fill the disk with them.
const MOST_WRONG: usize = 1000;

/// Inputs of each kind in a short run.
const SHORT: usize = 400;

/// What a kind of file is read by, and the most bytes that may be allocated for an input.
struct Kind {
    name: &'static str,
    read: fn(&[u8]),
    /// Beside four times the input: buffers, tables of the reader, and what its limits allow.
    fixed: usize,
    /// Bytes for a byte of the input. Deflate unpacks one to 1032, which become up to four times as
    /// many in f32, in two orders.
    each: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Limits are those that the functions of `hearth_fuzz` set, or the reader states.
const KINDS: [Kind; 23] = [
    Kind { name: "nifti", read: hearth_fuzz::nifti, fixed: MIB, each: 1032 * 9 },
    Kind { name: "npy", read: hearth_fuzz::npy, fixed: MIB, each: 1032 * 9 },
    Kind { name: "nrrd", read: hearth_fuzz::nrrd, fixed: MIB, each: 1032 * 13 },
    Kind { name: "metaimage", read: hearth_fuzz::metaimage, fixed: MIB, each: 1032 * 13 },
    // Labels are believed to be of their image's size, in chunks that are larger.
    Kind { name: "b2nd", read: hearth_fuzz::b2nd, fixed: 256 * MIB, each: 1032 * 48 },
    Kind { name: "raster", read: hearth_fuzz::raster, fixed: 8 * MIB, each: 1032 * 13 },
    Kind { name: "dicom", read: hearth_fuzz::dicom, fixed: 512 * MIB, each: 1032 * 9 },
    Kind { name: "tiff", read: hearth_fuzz::tiff, fixed: 256 * MIB, each: 1032 * 9 },
    // A tree of JSON takes some hundred bytes for each of its values.
    Kind { name: "dataset_json", read: hearth_fuzz::dataset_json, fixed: 64 * KIB, each: 512 },
    Kind { name: "lists", read: hearth_fuzz::lists, fixed: 256 * KIB, each: 512 },
    Kind { name: "recipe", read: hearth_fuzz::recipe, fixed: 16 * MIB, each: 4096 },
    // The end of an archive's directory may name 65,535 entries, for which 14 MB are reserved.
    Kind { name: "archive", read: hearth_fuzz::archive, fixed: 16 * MIB, each: 64 },
    Kind { name: "safetensors", read: hearth_fuzz::safetensors, fixed: 64 * KIB, each: 512 },
    // An operation of one byte is an object of some thirty; deflate unpacks it first.
    Kind { name: "pickle", read: hearth_fuzz::pickle, fixed: 24 * MIB, each: 1032 * 4 },
    Kind { name: "plugin", read: hearth_fuzz::plugin, fixed: 64 * KIB, each: 4 },
    Kind { name: "package", read: hearth_fuzz::package, fixed: 16 * MIB, each: 512 },
    Kind { name: "bundle", read: hearth_fuzz::bundle, fixed: 512 * MIB, each: 4096 },
    // What expressions make is at most four million values.
    Kind { name: "expression", read: hearth_fuzz::expression, fixed: 512 * MIB, each: 4096 },
    Kind { name: "plans", read: hearth_fuzz::plans, fixed: 256 * KIB, each: 1024 },
    Kind { name: "probabilities", read: hearth_fuzz::probabilities, fixed: 16 * MIB, each: 1032 * 9 },
    Kind { name: "annotations", read: hearth_fuzz::annotations, fixed: 256 * KIB, each: 512 },
    // The page has scripts and styles of its own, and a drawing of each curve.
    Kind { name: "run", read: hearth_fuzz::run, fixed: 32 * MIB, each: 4096 },
    // Forms are kept on disk; an archive in one is unpacked there.
    Kind { name: "request", read: hearth_fuzz::request, fixed: 32 * MIB, each: 64 },
];

#[test]
fn no_damaged_file_makes_a_reader_panic_or_take_more_than_is_stated() {
    let count = std::env::var("HEARTH_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(SHORT);
    let seed = std::env::var("HEARTH_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let only = std::env::var("HEARTH_FUZZ_KIND").ok();
    let keep = std::env::var_os("HEARTH_FUZZ_KEEP").map(PathBuf::from);
    let mut wrong = Vec::new();
    for kind in KINDS.iter().filter(|kind| only.as_ref().is_none_or(|only| only == kind.name)) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(kind.name);
        let mut files: Vec<_> =
            std::fs::read_dir(&folder).expect("a corpus").flatten().map(|file| file.path()).collect();
        files.sort();
        let corpus: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).expect("a file")).collect();
        // What is made once, such as tables of names, counts for nobody.
        corpus.iter().for_each(|bytes| (kind.read)(bytes));
        let (mut mutator, start, mut most, mut heaviest) = (Mutator::new(seed), Instant::now(), 0, Vec::new());
        for number in 0..count {
            let bytes = mutator.next(&corpus);
            let mut panicked = false;
            let took = peak_of(|| panicked = std::panic::catch_unwind(|| (kind.read)(&bytes)).is_err());
            if took > most {
                most = took;
                heaviest.clone_from(&bytes);
            }
            let allowed = kind.fixed + (4 + kind.each) * bytes.len();
            if panicked || took > allowed {
                let kept = std::env::temp_dir().join(format!("hearth-mutant-{}-{seed}-{number}", kind.name));
                std::fs::write(&kept, &bytes).expect("the input is kept");
                let what = if panicked { "a panic".to_owned() } else { format!("{took} bytes, {allowed} allowed") };
                wrong.push(format!("{} {number}: {what}: {}", kind.name, kept.display()));
                assert!(wrong.len() < MOST_WRONG, "{}", wrong.join("\n"));
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        if let Some(folder) = &keep {
            std::fs::write(folder.join(kind.name), &heaviest).expect("the input is kept");
        }
        println!("| `{}` | {count} | {} | {:.1} MB | {seconds:.0} s |", kind.name, corpus.len(), most as f64 / 1e6);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
