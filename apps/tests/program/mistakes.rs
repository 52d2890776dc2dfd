//! Two hundred typical mistakes, and the program's errors: the texts are in `recorded/mistakes.txt`,
//! which `HEARTH_RECORD=1` rewrites.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::common::{TINY, succeed, text};

/// The command of each mistake, run in a folder with a recipe, a data set and damaged ones.
const MISTAKES: &str = include_str!("../mistakes.txt");

/// The file with the recorded texts.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/mistakes.txt");

/// Terms that only Rust programmers understand.
const INSIDES: [&str; 20] = [
    "untagged",
    "variant of",
    "All(",
    "Each(",
    "One(",
    "Many(",
    "Some(",
    "None)",
    "Ok(",
    "Err(",
    "u64",
    "i64",
    "usize",
    "f64",
    " struct ",
    "panicked",
    "unwrap",
    "::",
    "DlOpen",
    "invalid type",
];

/// The maximum number of lines of an error.
const LINES: usize = 12;

/// Creates the files that the commands use.
fn prepare(dir: &Path) {
    let at = |name: &str| dir.join(name);
    let write = |name: &str, content: &[u8]| std::fs::write(at(name), content).expect("a file");
    write("tiny.toml", TINY.as_bytes());
    write("broken.toml", b"task = = 3\n");
    write("empty.toml", b"");
    write("latin1.toml", b"task = \"caf\xe9\"\n");
    write("notes.txt", b"nothing of use\n");
    write("junk.so", b"junk");
    write("junk.safetensors", b"junk that is no header");
    write("junk.pt", b"junk");
    write("junk.nii.gz", b"\x1f\x8bjunk");
    write("junk.png", b"\x89PNG\r\n\x1a\njunk");
    write("junk.dcm", b"junk");
    write("empty.nii.gz", b"");
    write("folds.json", b"[{\"train\": 3}]");
    write("rows.csv", b"image,label\na.nii.gz\n");
    write("absent.csv", b"image,label\nno.nii.gz,such.nii.gz\n");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet/organs_legacy_nomirror/model");
    let below = |name: &str| format!("models/{name}/nnUNetTrainer__nnUNetPlans__3d_fullres");
    for model in ["organs".to_owned(), below("Dataset001_First"), below("Dataset002_Second")] {
        let model = &model;
        std::fs::create_dir_all(at(model).join("fold_0")).expect("a folder");
        for file in ["plans.json", "dataset.json", "fold_0/checkpoint_final.pth"] {
            std::fs::copy(golden.join(file), at(model).join(file)).expect("a copy");
        }
    }
    std::fs::create_dir_all(at("bundle/configs")).expect("a folder");
    write("bundle/configs/metadata.json", b"{\"version\": \"1\"}");
    write("bundle/configs/inference.json", b"{\"run\": [\"$@evaluator.run()\"]}");
    succeed(&["data", "phantom", "spleen", "--cases", "3", "--size", "32", "--out", &text(&at("data"))]);
    let list = std::fs::read_to_string(at("data/dataset.json")).expect("a list");
    let variant = |name: &str, list: &str| {
        std::fs::create_dir_all(at(name)).expect("a folder");
        for part in ["imagesTr", "labelsTr"] {
            std::fs::create_dir_all(at(name).join(part)).expect("a folder");
            for file in std::fs::read_dir(at("data").join(part)).expect("a folder") {
                let file = file.expect("a file").path();
                std::fs::copy(&file, at(name).join(part).join(file.file_name().expect("a name"))).expect("a copy");
            }
        }
        std::fs::write(at(name).join("dataset.json"), list).expect("a list");
    };
    variant("cut", &list[..list.len() / 2]);
    variant("nocases", &list.replace("\"training\"", "\"trainng\""));
    variant("listless", "[1, 2");
    variant("absent", &list.replace("spleen_00", "spleen_77"));
    variant("relabelled", &list.replace("\"1\": \"spleen\"", "\"1\": \"spleen\", \"2\": \"liver\""));
    variant("twice", &list.replace("imagesTr/spleen_01", "imagesTr/spleen_00"));
    variant("halved", &list);
    let volume = at("halved/imagesTr/spleen_00.nii.gz");
    let bytes = std::fs::read(&volume).expect("a volume");
    std::fs::write(&volume, &bytes[..bytes.len() / 2]).expect("half a volume");
    std::fs::create_dir(at("full")).expect("a folder");
    write("full/notes.txt", b"mine\n");
    std::fs::create_dir(at("nothing")).expect("a folder");
}

/// Exit code and standard error, without what differs between machines.
fn said(dir: &Path, command: &str) -> (i32, String) {
    let program = env!("CARGO_BIN_EXE_hearth");
    // A shell, because of the quotes.
    let mut shell = Command::new("sh");
    shell.args(["-c", &command.replacen("hearth", &format!("exec '{program}'"), 1)]);
    shell.current_dir(dir).env("NO_COLOR", "1").env_remove("HEARTH_PLUGIN_PATH").env_remove("RUST_LOG");
    let output = shell.stdin(std::process::Stdio::null()).output().expect("a shell");
    let beside = Path::new(program).parent().expect("a folder");
    let text = crate::common::errors(&output);
    let text = text.replace(&dir.display().to_string(), "DIR").replace(&beside.display().to_string(), "PROGRAM");
    (output.status.code().unwrap_or(-1), untimed(&text))
}

/// The text without the seconds that a model took to open.
fn untimed(text: &str) -> String {
    let mut parts = text.split("loaded in ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| whole + "loaded in TIME" + part.split_once(" s").map_or(part, |(_, rest)| rest))
}

#[test]
fn what_is_said_of_mistakes_is_what_was_recorded() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().canonicalize().expect("a folder");
    prepare(&dir);
    let commands: Vec<&str> = MISTAKES.lines().filter(|line| line.starts_with("hearth ")).collect();
    assert!(commands.len() >= 100, "{}", commands.len());
    let (mut all, mut wrong) = (String::new(), String::new());
    for command in commands {
        let (code, text) = said(&dir, command);
        let _ = write!(all, "$ {command}\n[{code}] {text}\n");
        let error = text.find("error:").map_or("", |at| &text[at..]);
        let warns = text.contains("warning:");
        if code == 0 && !warns {
            let _ = writeln!(wrong, "{command}: nothing is said");
        }
        if code != 0 && (error.is_empty() || error.lines().count() > LINES || code > 2) {
            let _ = writeln!(wrong, "{command}: exit {code}, {} lines\n{text}", error.lines().count());
        }
        for inside in INSIDES.iter().filter(|inside| text.contains(**inside)) {
            let _ = writeln!(wrong, "{command}: {inside:?} in\n{text}");
        }
    }
    if std::env::var_os("HEARTH_RECORD").is_some() {
        std::fs::write(RECORDED, &all).expect("recorded");
    }
    assert!(wrong.is_empty(), "{wrong}");
    let recorded = std::fs::read_to_string(RECORDED).unwrap_or_default();
    let differ = recorded.split("\n$ ").zip(all.split("\n$ ")).find(|(before, now)| before != now);
    if let Some((before, now)) = differ {
        panic!("was\n{before}\nis\n{now}\nHEARTH_RECORD=1 records what is said now");
    }
    assert_eq!(recorded.len(), all.len(), "HEARTH_RECORD=1 records what is said now");
}
