//! Ways of starting several ranks in the tests: as threads, with Open MPI, with MPICH.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::clients;
use super::common::text;

/// A way of starting ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum By {
    /// `--ranks` without mpirun.
    Threads,
    /// `--ranks` with the mpirun of this name.
    Mpirun(&'static str),
}

/// The launchers on this machine.
pub fn launchers() -> Vec<By> {
    let mpirun = |name: &'static str| clients::find_program(name, "the run with threads").map(|_| By::Mpirun(name));
    [Some(By::Threads), mpirun("mpirun.openmpi"), mpirun("mpirun.mpich")].into_iter().flatten().collect()
}

/// A folder with only this launcher, as `mpirun`, and what every launcher needs.
pub fn path(folder: &Path, by: By) -> String {
    let bin = folder.join(format!("bin-{by:?}").replace(['(', ')', '"', '.'], ""));
    fs::create_dir_all(&bin).expect("a folder");
    let rest = "/usr/bin:/bin:/usr/local/bin";
    match by {
        By::Threads => text(&bin),
        By::Mpirun(name) => {
            let link = bin.join("mpirun");
            if !link.exists() {
                // MPICH's launcher looks for its helpers in its own folder, so a link is not enough.
                let real = clients::find_program(name, "the run with threads").expect("it was found");
                fs::write(&link, format!("#!/bin/sh\nexec {} \"$@\"\n", real.display())).expect("written");
                fs::set_permissions(&link, fs::Permissions::from_mode(0o755)).expect("executable");
            }
            format!("{}:{rest}", text(&bin))
        }
    }
}
