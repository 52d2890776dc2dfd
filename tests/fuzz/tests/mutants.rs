//! Damaged files of every kind: none makes a reader panic, or allocate more than stated here. The
//! inputs are the same in each run; `HEARTH_FUZZ=1000000` sets the number of inputs of each kind,
//! and `HEARTH_FUZZ_KEEP=DIR` keeps the input of each kind that took the most memory.

use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_fuzz::{Mutator, peak_of};

/// If a reader fails for all inputs, like a server that has ended, the disk must not fill up.
const MOST_WRONG: usize = 1000;

/// The number of inputs of each kind in a short run.
const SHORT: usize = 400;

/// The reader of a kind of file, and the limit of allocated bytes for an input.
struct Kind {
    name: &'static str,
    read: fn(&[u8]),
    /// The fixed part, in addition to four times the input: buffers, tables of the reader, and what
    /// its limits allow.
    fixed: usize,
    /// Bytes per byte of the input. Deflate unpacks one to 1032, which become up to four times as
    /// many in f32, in two orders.
    each: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The limits are those that the functions of `hearth_fuzz` set, or the reader states.
const KINDS: [Kind; 25] = [
    Kind { name: "nifti", read: hearth_fuzz::nifti, fixed: MIB, each: 1032 * 9 },
    Kind { name: "npy", read: hearth_fuzz::npy, fixed: MIB, each: 1032 * 9 },
    Kind { name: "nrrd", read: hearth_fuzz::nrrd, fixed: MIB, each: 1032 * 13 },
    Kind { name: "metaimage", read: hearth_fuzz::metaimage, fixed: MIB, each: 1032 * 13 },
    Kind { name: "mgh", read: hearth_fuzz::mgh, fixed: MIB, each: 1032 * 9 },
    Kind { name: "analyze", read: hearth_fuzz::analyze, fixed: MIB, each: 1032 * 9 },
    // Labels are assumed to have their image's size, in larger chunks.
    Kind { name: "b2nd", read: hearth_fuzz::b2nd, fixed: 256 * MIB, each: 1032 * 48 },
    Kind { name: "raster", read: hearth_fuzz::raster, fixed: 8 * MIB, each: 1032 * 13 },
    Kind { name: "dicom", read: hearth_fuzz::dicom, fixed: 512 * MIB, each: 1032 * 9 },
    Kind { name: "tiff", read: hearth_fuzz::tiff, fixed: 256 * MIB, each: 1032 * 9 },
    // A JSON tree takes several hundred bytes for each value.
    Kind { name: "dataset_json", read: hearth_fuzz::dataset_json, fixed: 64 * KIB, each: 512 },
    Kind { name: "lists", read: hearth_fuzz::lists, fixed: 256 * KIB, each: 512 },
    Kind { name: "recipe", read: hearth_fuzz::recipe, fixed: 16 * MIB, each: 4096 },
    // The end of an archive's directory may name 65,535 entries, for which 14 MB are reserved.
    Kind { name: "archive", read: hearth_fuzz::archive, fixed: 16 * MIB, each: 64 },
    Kind { name: "safetensors", read: hearth_fuzz::safetensors, fixed: 64 * KIB, each: 512 },
    // An operation of one byte creates an object of about thirty; deflate unpacks it first.
    Kind { name: "pickle", read: hearth_fuzz::pickle, fixed: 24 * MIB, each: 1032 * 4 },
    Kind { name: "plugin", read: hearth_fuzz::plugin, fixed: 64 * KIB, each: 4 },
    Kind { name: "package", read: hearth_fuzz::package, fixed: 16 * MIB, each: 512 },
    Kind { name: "bundle", read: hearth_fuzz::bundle, fixed: 512 * MIB, each: 4096 },
    // Expressions create at most four million values.
    Kind { name: "expression", read: hearth_fuzz::expression, fixed: 512 * MIB, each: 4096 },
    Kind { name: "plans", read: hearth_fuzz::plans, fixed: 256 * KIB, each: 1024 },
    Kind { name: "probabilities", read: hearth_fuzz::probabilities, fixed: 16 * MIB, each: 1032 * 9 },
    Kind { name: "annotations", read: hearth_fuzz::annotations, fixed: 256 * KIB, each: 512 },
    // The page has its own scripts and styles, and a drawing of each curve.
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
        // Memory that is allocated once, such as tables of names, does not count.
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
