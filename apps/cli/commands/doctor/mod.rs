//! `hearth doctor`: reports what this machine has, what is missing, and the command that fixes it.

mod libraries;
mod parts;
mod programs;

use serde::Serialize;

use crate::error::{Failure, Outcome};
use crate::out;
use crate::terminal::{bold, dim};
use crate::version::Version;

/// Arguments of `hearth doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The state of a checked part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Works as it should.
    Good,
    /// Missing, and not needed by every use.
    Absent,
    /// Works, but less well than it could.
    Poor,
    /// Set up, but not working.
    Broken,
}

/// One checked part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the part.
    pub what: String,
    /// Its state.
    pub health: Health,
    /// A description of what was found.
    pub found: String,
    /// The command or change that fixes it.
    pub mend: Option<String>,
}

impl Finding {
    fn new(what: impl Into<String>, health: Health, found: impl Into<String>) -> Self {
        Self { what: what.into(), health, found: found.into(), mend: None }
    }

    fn good(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(what, Health::Good, found)
    }

    fn mended_by(self, command: impl Into<String>) -> Self {
        Self { mend: Some(command.into()), ..self }
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    /// Whether nothing is broken.
    ok: bool,
    program: Version,
    findings: Vec<Finding>,
}

/// Checks everything, and fails if something is broken.
pub fn run(args: &Args) -> Outcome {
    let findings = parts::all();
    let broken = findings.iter().filter(|finding| finding.health == Health::Broken).count();
    if args.json {
        let report = Report { ok: broken == 0, program: Version::here(), findings };
        out!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{} {}", bold("hearth"), Version::here());
        show(&findings);
    }
    match broken {
        0 => Ok(()),
        1 => Err(Failure::new("one thing is broken: see above")),
        _ => Err(Failure::new(format!("{broken} things are broken: see above"))),
    }
}

fn show(findings: &[Finding]) {
    for Finding { what, health, found, mend } in findings {
        let mark = match health {
            Health::Good => "ok      ",
            Health::Absent => "absent  ",
            Health::Poor => "poor    ",
            Health::Broken => "BROKEN  ",
        };
        let line = format!("{mark}{what:<18} {found}");
        match health {
            Health::Good => out!("{line}"),
            Health::Absent => out!("{}", dim(&line)),
            Health::Poor | Health::Broken => out!("{}", bold(&line)),
        }
        if let Some(mend) = mend {
            out!("        {:<18} -> {mend}", "");
        }
    }
}
