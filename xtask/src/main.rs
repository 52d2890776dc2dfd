//! `cargo xtask dist`: builds the archive, the Debian package and the wheel of the program, from one
//! build. `cargo xtask pictures`: makes the pictures of terminals and pages in `docs/images`.

#![forbid(unsafe_code)]

mod archive;
mod build;
#[cfg(test)]
#[path = "../../tests/clients.rs"]
mod clients;
mod crates;
mod deb;
mod glibc;
mod libraries;
mod licences;
mod llvm;
mod natives;
mod pictures;
mod sbom;
mod stage;
mod wheel;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::build::Features;
use crate::stage::Stage;

/// The result of a task.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Tasks of this repository that Cargo has no command for.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Task {
    /// Make the packages for users: an archive, a Debian package, a wheel, and their checksums
    Dist(Dist),
    /// Make the pictures of docs/images that show a terminal or a page, by a built program
    Pictures(pictures::Args),
}

#[derive(Debug, clap::Args)]
struct Dist {
    /// The devices that the program supports
    #[arg(long, value_enum, default_value_t = Features::Cpu)]
    features: Features,
    /// The folder for the results
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    out: PathBuf,
    /// Use the program from an earlier build with the same features
    #[arg(long)]
    no_build: bool,
    /// The oldest glibc that the program must support, such as 2.28: builds with `cargo zigbuild`
    #[arg(long, value_name = "VERSION")]
    glibc: Option<String>,
    /// Leave out the sources of the crates that plugins are built from
    #[arg(long)]
    without_sources: bool,
}

/// The system requirements of the program and its plugins.
#[derive(Debug, Default)]
struct Needs {
    /// The newest version whose symbols they use.
    glibc: Option<(u32, u32)>,
    /// The libraries that the loader loads.
    libraries: BTreeSet<String>,
}

fn main() -> ExitCode {
    let done = match Task::parse() {
        Task::Dist(args) => dist(&args),
        Task::Pictures(args) => pictures::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn dist(args: &Dist) -> Outcome {
    let glibc = args.glibc.as_deref();
    if let Some(version) = glibc
        && glibc::parse(version).is_none()
    {
        return Err(format!("--glibc {version} is not a version; write --glibc 2.28").into());
    }
    let release = build::Release::read()?;
    if !args.no_build {
        build::build(args.features, glibc, &release)?;
    }
    let built = build::folder(glibc, &release)?;
    let name = format!("hearth-{}-{}-{}", release.version, release.target, args.features);
    fs::create_dir_all(&args.out)?;
    let folder = args.out.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let crates = crates::Crates::of_program(args.features, &release)?;
    let stage = Stage::new(&folder, &built, args, &release, &crates)?;
    let mut needs = Needs::default();
    for file in stage.binaries()? {
        needs.glibc = needs.glibc.max(glibc::newest_needed(&file)?);
        if release.target.contains("linux") {
            needs.libraries.extend(libraries::needed(&file)?);
        }
    }
    if let (Some(wanted), Some(needed)) = (glibc.and_then(glibc::parse), needs.glibc)
        && needed > wanted
    {
        return Err(
            format!("the program needs glibc {}.{}, newer than {}", needed.0, needed.1, glibc.unwrap_or("")).into()
        );
    }
    let mut made = vec![args.out.join(format!("{name}.tar.gz"))];
    archive::tar_gz(&folder, &name, &made[0], release.time)?;
    if release.target.contains("linux") {
        made.push(deb::write(&folder, &args.out, args.features, &needs, &release)?);
    }
    made.push(wheel::write(&folder, &args.out, args.features, needs.glibc, &release)?);
    let sums = archive::checksums(&made)?;
    fs::write(args.out.join(format!("{name}.SHA256SUMS")), &sums)?;
    print!("{sums}");
    if let Some((major, minor)) = needs.glibc {
        println!("needs glibc {major}.{minor}");
    }
    Ok(())
}

/// Runs a command and returns what it prints.
fn output_of(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {}", said.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
