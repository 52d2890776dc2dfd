//! Ways of starting several ranks in the tests: as threads, with Open MPI, with MPICH, over a stand-in of
//! ssh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::clients;
use super::common::text;

/// A way of starting ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum By {
    /// `--ranks` without mpirun.
    Threads,
    /// `--ranks` with the mpirun of this name.
    Mpirun(&'static str),
    /// `--hosts`: the first half of the ranks here, the others over [`ssh`].
    Hosts,
}

impl By {
    /// Adds the options and variables that start `ranks` ranks from `folder`.
    pub fn start(self, command: &mut Command, folder: &Path, ranks: usize) {
        command.env("PATH", path(folder, self));
        match self {
            _ if ranks < 2 => {}
            By::Hosts => {
                let here = ranks / 2;
                let hosts = format!("localhost:{here},elsewhere:{}", ranks - here);
                command.args(["--hosts", &hosts]).env("HEARTH_SSH", ssh(folder, ""));
            }
            By::Threads | By::Mpirun(_) => _ = command.args(["--ranks", &ranks.to_string()]),
        }
    }
}

/// A program in the place of ssh: it starts the command on this machine, without the variables of the
/// launcher. `before` is done first, with the host in `$host` and the command in `$line`.
pub fn ssh(folder: &Path, before: &str) -> PathBuf {
    let file = folder.join("ssh");
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" = -o ]; do shift 2; done\nhost=\"$1\" line=\"$2\"\n{before}\n\
         unset RAYON_NUM_THREADS HEARTH_NCCL HEARTH_GPU_DRIVER HEARTH_PIN_CORES\n\
         export SSH_CONNECTION='127.0.0.1 50000 127.0.0.1 22'\nexec sh -c \"$line\"\n"
    );
    fs::write(&file, script).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
    file
}

/// The launchers on this machine.
pub fn launchers() -> Vec<By> {
    let mpirun = |name: &'static str| clients::find_program(name, "the run with threads").map(|_| By::Mpirun(name));
    let all = [Some(By::Threads), Some(By::Hosts), mpirun("mpirun.openmpi"), mpirun("mpirun.mpich")];
    all.into_iter().flatten().collect()
}

/// A folder with only this launcher, as `mpirun`, and what every launcher needs.
pub fn path(folder: &Path, by: By) -> String {
    let bin = folder.join(format!("bin-{by:?}").replace(['(', ')', '"', '.'], ""));
    fs::create_dir_all(&bin).expect("a folder");
    let rest = "/usr/bin:/bin:/usr/local/bin";
    match by {
        By::Threads => text(&bin),
        By::Hosts => format!("{}:{rest}", text(&bin)),
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
