//! The programs that commands start: launchers of ranks, `ssh`, the tools that build plugins.

use super::{Finding, Health, libraries};
use crate::hosts::{SSH, ssh_words};

/// Checks all programs.
pub fn all() -> Vec<Finding> {
    vec![launchers(), ssh(), cargo(), make()]
}

fn launchers() -> Finding {
    let there = |name: &&str| libraries::program(name).is_some();
    let found: Vec<&str> = ["mpirun", "mpiexec", "srun"].into_iter().filter(there).collect();
    if found.contains(&"mpirun") {
        return Finding::good("launchers", found.join(", "));
    }
    let others = found.iter().map(|name| format!("{name}, but ")).collect::<String>();
    let lacks = "no mpirun: the ranks of `--ranks` are threads, and folds and `--max-restarts` need processes";
    Finding::new("launchers", Health::Absent, format!("{others}{lacks}")).mended_by("sudo apt install openmpi-bin")
}

/// The command that starts ranks on other hosts.
fn ssh() -> Finding {
    let words = match ssh_words() {
        Ok(words) => words,
        Err(failure) => return Finding::new("ssh", Health::Broken, failure.line()).mended_by(format!("unset {SSH}")),
    };
    let (line, program) = (words.join(" "), libraries::program(&words[0]));
    match program {
        Some(file) if line == "ssh" => Finding::good("ssh", file.display().to_string()),
        Some(_) => Finding::good("ssh", format!("{SSH}={line}")),
        None if line == "ssh" => {
            let found = "not installed; `--hosts` starts ranks on other machines by it";
            Finding::new("ssh", Health::Absent, found).mended_by("sudo apt install openssh-client")
        }
        None => {
            let found = format!("{SSH}={line}: there is no program {}", words[0]);
            Finding::new("ssh", Health::Broken, found).mended_by(format!("unset {SSH}"))
        }
    }
}

fn cargo() -> Finding {
    let named = std::env::var("CARGO").ok().filter(|name| !name.is_empty());
    let name = named.as_deref().unwrap_or("cargo");
    match libraries::program(name) {
        Some(file) => Finding::good("cargo", file.display().to_string()),
        None if named.is_some() => Finding::new("cargo", Health::Broken, format!("CARGO={name}, which does not exist"))
            .mended_by("unset CARGO"),
        None => {
            let found = "not installed; plugins in Rust are built by it (`hearth plugin dev`)";
            Finding::new("cargo", Health::Absent, found).mended_by("install it from https://rustup.rs")
        }
    }
}

fn make() -> Finding {
    let missing: Vec<&str> = ["make", "cc"].into_iter().filter(|name| libraries::program(name).is_none()).collect();
    if missing.is_empty() {
        return Finding::good("make and cc", "plugins in C, C++ and Python can be built");
    }
    let found = format!("no {}; plugins in C, C++ and Python are built by them", missing.join(" and no "));
    Finding::new("make and cc", Health::Absent, found).mended_by("sudo apt install build-essential")
}
