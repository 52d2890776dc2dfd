//! The kinds of data sets compared: time to start, time of the first and of later epochs, peak memory,
//! as in MONAI's comparison of data set types. Each kind has a process of its own, so that its peak
//! memory is its own.

mod kind;
mod measure;
mod measured;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use hearth_data::DecathlonDataset;
use hearth_files::Scratch;
use serde_json::Value;

use super::{Args, SCRATCH, file_name, peer, say};
use crate::commands::data::phantom_spleen;
use crate::error::{Context, Failure, Outcome};
use crate::folders::{self, Reserved};
use crate::picture::{bars, save};
use crate::{note, out};
use measured::Measured;

pub use kind::Kind;

/// The raw lines.
const LINES: &str = "datasets.jsonl";
/// The table.
const PAGE: &str = "datasets.md";
/// The picture.
const PICTURE: &str = "datasets.png";

/// The data of the benchmark.
struct Data {
    folder: PathBuf,
    described: String,
    /// The folder of generated volumes, which is removed at the end.
    _made: Option<Scratch>,
}

impl Data {
    fn open(args: &Args) -> Outcome<Self> {
        if let Some(folder) = args.files.first() {
            return Ok(Data { folder: folder.clone(), described: file_name(folder), _made: None });
        }
        let (cases, size) = (args.cases.unwrap_or(12), args.size.unwrap_or(128));
        let made = Scratch::new(SCRATCH).while_doing(|| "cannot make a temporary folder")?;
        let described = format!("{cases} spleen phantoms of size {size}");
        // The name describes the data in the lines of the processes.
        let folder = made.path().join(&described);
        phantom_spleen(&folder, cases as usize, Some(size as usize), args.seed())?;
        Ok(Data { folder, described, _made: Some(made) })
    }

    /// Reads all files once, so that each kind finds them in the system's cache.
    fn warm(&self) -> Outcome {
        for case in DecathlonDataset::open(&self.folder)?.training {
            for path in case.all_files() {
                let read = File::open(path).and_then(|mut file| std::io::copy(&mut file, &mut std::io::sink()));
                read.while_doing(|| format!("cannot read {}", path.display()))?;
            }
        }
        Ok(())
    }
}

/// Measures all kinds, or the one of `--kind`.
pub fn run(args: &Args) -> Outcome {
    let _reserved = args.out.as_deref().map(Reserved::new).transpose()?;
    let data = Data::open(args)?;
    if let Some(kind) = args.kind {
        let measured = measure::measure(args, kind, &data.folder, &data.described)?;
        let fields = serde_json::to_value(&measured)?;
        let line = super::stamped(fields.clone()).to_string();
        say(args, fields)?;
        return args.out.as_deref().map_or(Ok(()), |out| write(out, &[line], &[measured]));
    }
    data.warm()?;
    let others = args.peer.as_deref().map(|path| others(args, path)).transpose()?.unwrap_or_default();
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for kind in Kind::ALL {
        note!("{}", kind.name());
        let line = apart(args, kind, &data.folder)?;
        out!("{line}");
        rows.push(serde_json::from_str::<Measured>(&line)?);
        let same = others.iter().filter(|other| other.fields.kind == kind.name());
        rows.extend(same.map(|other| Measured { kind: peer::named(kind.name(), &other.peer), ..other.fields.clone() }));
        lines.push(line);
    }
    if !args.json {
        measured::lines(&rows).iter().for_each(|line| out!("{line}"));
    }
    if let Some(out) = &args.out {
        write(out, &lines, &rows)?;
        for file in [PAGE, PICTURE, LINES] {
            note!("written  {}", out.join(file).display());
        }
    }
    Ok(())
}

/// The measurements of another program.
fn others(args: &Args, path: &Path) -> Outcome<Vec<peer::Line<Measured>>> {
    peer::read(path, |other: &Measured| {
        peer::difference(&[
            ("patch", other.patch.to_string(), measure::patch(args).to_string()),
            ("batch", other.batch.to_string(), measure::batch(args).to_string()),
            ("epochs", other.epoch_seconds.len().to_string(), measure::epochs(args).to_string()),
        ])
    })
}

/// Measures a kind in a process of its own; returns its line of JSON.
fn apart(args: &Args, kind: Kind, data: &Path) -> Outcome<String> {
    let program = std::env::current_exe().while_doing(|| "the program cannot find itself")?;
    let mut child = Command::new(program);
    child.args(["bench", "datasets"]).arg(data).args(["--kind", &kind.word(), "--json"]);
    let seed = args.seed.map(|seed| ("--seed", seed.to_string()));
    let epochs = args.epochs.map(|epochs| ("--epochs", epochs.to_string()));
    let numbers = [("--threads", args.threads), ("--patch", args.patch), ("--batch", args.batch)];
    let numbers = numbers.into_iter().filter_map(|(option, value)| Some((option, value?.to_string())));
    for (option, value) in numbers.chain(seed).chain(epochs) {
        child.args([option, &value]);
    }
    let output = child.stderr(std::process::Stdio::inherit()).output();
    let output = output.while_doing(|| format!("measuring {}", kind.name()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| serde_json::from_str::<Value>(line).is_ok());
    match line {
        Some(line) if output.status.success() => Ok(line.to_owned()),
        _ => Err(Failure::new(format!("{} was not measured: its process ended with {}", kind.name(), output.status))),
    }
}

fn write(out: &Path, lines: &[String], rows: &[Measured]) -> Outcome {
    folders::replace(&out.join(LINES), lines.join("\n") + "\n")?;
    folders::replace(&out.join(PAGE), measured::page(rows))?;
    let drawn: Vec<_> = rows.iter().map(Measured::bar).collect();
    let data = rows.first().map_or("", |row| &row.data);
    Ok(save(&bars(&format!("{data}: seconds of start and epochs"), &drawn), &out.join(PICTURE))?)
}
