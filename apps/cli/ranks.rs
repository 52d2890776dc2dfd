//! Several ranks of one command, started by a launcher (`mpirun`, `srun`), by `--ranks` on this
//! machine, or by `--hosts` on several.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hearth_train::Ranks;
use hearth_train::distributed::{At, Communicator, DEADLINE, Launcher, Placement, connect, threads, variables};

use crate::cores;
use crate::error::{Context, Failure, Outcome};
use crate::hosts::{self, Host};
use crate::run::is_reported;
use crate::{interrupt, note, terminal};

/// When ranks that failed are restarted.
pub struct Restarts<'a> {
    /// The maximum number of restarts.
    pub most: u32,
    /// Whether there is a checkpoint to continue from.
    pub may: &'a dyn Fn() -> bool,
}

/// The variable with the seconds that a rank waits for the others to start.
pub const START_DEADLINE: &str = "HEARTH_START_DEADLINE";

/// The options that start ranks.
const OPTION: &str = "--ranks";
const HOSTS: &str = "--hosts";

/// The options of commands whose work several ranks can share.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RanksArgs {
    /// Share the work among N ranks on this machine: processes of mpirun, or threads without mpirun
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub ranks: Option<u16>,
    /// Share the work among ranks on these machines, started over ssh, without MPI: node1:2,node2:2
    #[arg(long, value_name = "HOST:N,...", value_delimiter = ',', conflicts_with = "ranks")]
    pub hosts: Vec<Host>,
}

impl RanksArgs {
    /// Whether this thread does all the work, and starts no other ranks.
    pub fn alone(&self) -> bool {
        self.hosts.is_empty() && self.ranks.is_none_or(|count| count < 2)
    }

    /// Runs `work` as each of the ranks, or as the only one.
    pub fn run(&self, work: impl Fn(Option<Ranks>) -> Outcome + Sync) -> Outcome {
        self.run_again(Restarts { most: 0, may: &|| false }, work)
    }

    /// Like [`Self::run`], with restarts after a failure where `restarts` allows them.
    pub fn run_again(&self, restarts: Restarts<'_>, work: impl Fn(Option<Ranks>) -> Outcome + Sync) -> Outcome {
        if !self.hosts.is_empty() {
            check_unlaunched(HOSTS)?;
            return hosts::start(&self.hosts, &restarts);
        }
        if let Some(count) = self.ranks {
            return start(usize::from(count), restarts, work);
        }
        match of_torchrun(&variables())? {
            Some(Torchrun { count, first: true }) => return begin(count, restarts, work),
            Some(Torchrun { first: false, .. }) => return Ok(()),
            None => {}
        }
        let ranks = of_launcher()?;
        let ended = work(ranks.clone());
        leave_together(ranks.as_ref(), ended.is_err());
        ended
    }
}

/// Whether this rank is the first one, or the only one.
pub fn is_first(ranks: Option<&Ranks>) -> bool {
    ranks.is_none_or(|ranks| ranks.rank() == 0)
}

/// This rank's number on its machine.
pub fn local_rank(ranks: Option<&Ranks>) -> usize {
    ranks.map_or(0, |ranks| ranks.communicator().local_rank())
}

/// The rank that a launcher gave this process; `None` if there is one rank. All but the first print
/// nothing from then on.
pub fn of_launcher() -> Outcome<Option<Ranks>> {
    let Some(placement) = placement()?.filter(|placement| placement.world > 1) else { return Ok(None) };
    let deadline = start_deadline()?;
    let communicator: Arc<dyn Communicator> = match placement.launcher {
        Launcher::Hearth => Arc::new(hosts::rank::join(&placement, deadline)?),
        _ => Arc::from(connect(deadline).map_err(|error| Failure::new(error.to_string()))?),
    };
    let ranks = Ranks::new(communicator);
    terminal::speak(ranks.rank() == 0);
    let (world, hosts) = (ranks.world(), ranks.communicator().hosts());
    let each: BTreeSet<&str> = hosts.iter().map(|host| &**host).collect();
    note!("{world} ranks on {}", each.into_iter().collect::<Vec<_>>().join(", "));
    Ok(Some(ranks))
}

/// Waits for the other ranks if all of them end with the same error. A launcher kills the remaining
/// ranks when one has ended, and the first may still have to remove an empty folder.
pub fn leave_together(ranks: Option<&Ranks>, failed: bool) {
    if let (Some(ranks), true) = (ranks, failed && is_reported()) {
        // A rank that does not come is already ending.
        let _ = ranks.communicator().finish(&At::new("the end", 0).within(Duration::from_secs(10)));
    }
}

/// How long the ranks may take to start: five minutes unless the variable gives another value.
pub fn start_deadline() -> Outcome<Duration> {
    deadline_of(std::env::var(START_DEADLINE).ok())
}

fn deadline_of(given: Option<String>) -> Outcome<Duration> {
    let Some(given) = given else { return Ok(DEADLINE) };
    match given.trim().parse::<f64>() {
        // A day is longer than any real wait, and short enough for the clock's range.
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(Failure::new(format!("{START_DEADLINE}={given}: expected 0.1 to 86400 seconds"))),
    }
}

/// The place that a launcher gave this process.
fn placement() -> Outcome<Option<Placement>> {
    Placement::from_environment().map_err(|error| Failure::new(error.to_string()))
}

/// Whether a launcher started this process as one of several.
pub fn is_launched() -> Outcome<bool> {
    Ok(placement()?.is_some_and(|placement| placement.world > 1))
}

/// Refuses an option that starts ranks in a process that is one of several.
fn check_unlaunched(option: &str) -> Outcome {
    match is_launched()? {
        false => Ok(()),
        true => Err(Failure::new(format!("{option} starts ranks, but a launcher already did: remove one of the two"))),
    }
}

/// A process that `torchrun` started, of a job on one machine.
#[derive(Debug, PartialEq, Eq)]
struct Torchrun {
    /// The number of processes.
    count: usize,
    /// Whether this process starts the ranks, as [`OPTION`] does. `torchrun` connects its processes
    /// only through PyTorch, so the others have nothing to do, and end.
    first: bool,
}

/// `None` if something else started this process, or if `torchrun` started several machines.
fn of_torchrun(variables: &BTreeMap<String, String>) -> Outcome<Option<Torchrun>> {
    let placement = Placement::of(variables).map_err(|error| Failure::new(error.to_string()))?;
    let here = variables.get("LOCAL_WORLD_SIZE").and_then(|count| count.trim().parse().ok());
    let found = placement.filter(|placement| placement.launcher == Launcher::Torchrun && placement.world > 1);
    Ok(found
        .filter(|placement| here == Some(placement.world))
        .map(|placement| Torchrun { count: placement.world, first: placement.rank == 0 }))
}

/// Runs `work` as each of `count` ranks on this machine: as processes of `mpirun` if it is installed,
/// which run this program with the same arguments, and otherwise as threads of this process.
pub fn start(count: usize, restarts: Restarts<'_>, work: impl Fn(Option<Ranks>) -> Outcome + Sync) -> Outcome {
    check_unlaunched(OPTION)?;
    if count < 2 {
        return work(None);
    }
    begin(count, restarts, work)
}

fn begin(count: usize, restarts: Restarts<'_>, work: impl Fn(Option<Ranks>) -> Outcome + Sync) -> Outcome {
    match find("mpirun") {
        Some(launcher) => processes(&launcher, count, &restarts),
        None if restarts.most > 0 => {
            Err(Failure::new(format!("{RESTARTS} needs mpirun, which is not installed on this machine")))
        }
        None => {
            note!("no mpirun on this machine: {count} ranks as threads of one process, with one pool of threads");
            as_threads(count, work)
        }
    }
}

/// Finds a program in the folders of `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// How ranks that were started have ended.
pub enum Ended {
    /// All with success.
    Done,
    /// By Ctrl-C.
    Interrupted,
    /// With this error.
    Failed(String),
}

/// Starts ranks by `once`. If they fail and a restart may help, starts them again; they continue from
/// the checkpoint. `asked` is set once the user has interrupted them.
pub fn until_done(
    restarts: &Restarts<'_>,
    asked: &AtomicBool,
    mut once: impl FnMut(bool) -> Outcome<Ended>,
) -> Outcome {
    let mut again = 0;
    loop {
        let why = match once(again > 0)? {
            Ended::Done => return Ok(()),
            Ended::Interrupted => return Err(Failure::interrupted()),
            // A launcher then has its own exit code.
            Ended::Failed(_) if asked.load(Ordering::SeqCst) => return Err(Failure::interrupted()),
            Ended::Failed(why) => why,
        };
        if again == restarts.most || !(restarts.may)() {
            return Err(Failure::new(why));
        }
        again += 1;
        note!("{why}");
        note!("restart {again} of {}: the ranks resume from the newest checkpoint", restarts.most);
    }
}

/// Starts this program `count` times, each with its share of the cores.
fn processes(launcher: &Path, count: usize, restarts: &Restarts<'_>) -> Outcome {
    // Ctrl-C also reaches the launcher, which asks the ranks to end; this process waits for that.
    let asked = Arc::new(AtomicBool::new(false));
    interrupt::listen_to_launcher(Arc::clone(&asked))?;
    until_done(restarts, &asked, |again| {
        let status = launch(launcher, count, again)?;
        Ok(match status.code() {
            Some(0) => Ended::Done,
            Some(130) => Ended::Interrupted,
            Some(code) => Ended::Failed(format!("the ranks ended with exit code {code}; see above")),
            None => Ended::Failed(format!("{} was killed: {status}", launcher.display())),
        })
    })
}

fn launch(launcher: &Path, count: usize, again: bool) -> Outcome<ExitStatus> {
    let doing = || format!("cannot start {}", launcher.display());
    let said = Command::new(launcher).arg("--version").output().while_doing(doing)?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    // The name of the launcher depends on how it was called: "mpirun (Open MPI) 4.1", "mpirun.openmpi
    // (OpenRTE) 4.1".
    let open_mpi = ["Open MPI", "OpenRTE", "open-mpi.org"].iter().any(|name| said.contains(name));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let each = (cores / count).max(1);
    let mut command = Command::new(launcher);
    command.arg("-n").arg(count.to_string());
    if open_mpi {
        // The launcher's own binding gives a rank one core, whatever its threads, and refuses more
        // ranks than cores.
        command.args(["--bind-to", "none", "--oversubscribe"]);
        // Containers often have only the root user, and `--ranks` starts nothing on another machine.
        // Seconds after Ctrl-C before the launcher asks the ranks to end, and again before it kills
        // them. The default of one is too short to write a checkpoint.
        command.env("OMPI_MCA_odls_base_sigkill_timeout", "5");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        command.env("RAYON_NUM_THREADS", each.to_string());
    }
    if std::env::var_os(cores::ASKED).is_none() {
        command.env(cores::ASKED, count.to_string());
    }
    note!("{count} ranks with {each} of {cores} cores each, by {}", launcher.display());
    command.arg(std::env::current_exe().while_doing(doing)?).args(of_ranks(std::env::args_os().skip(1)));
    if again {
        command.arg("--continue");
    }
    command.status().while_doing(doing)
}

/// The options that are not passed to the ranks.
const RESTARTS: &str = "--max-restarts";

/// The arguments of each rank.
pub fn of_ranks(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut value_follows) = (Vec::new(), false);
    for argument in arguments {
        if std::mem::take(&mut value_follows) {
            continue;
        }
        let text = argument.to_string_lossy();
        let own = |option: &str| text.strip_prefix(option).is_some_and(|rest| rest.starts_with('='));
        if [OPTION, HOSTS, RESTARTS].contains(&&*text) {
            value_follows = true;
        } else if ![OPTION, HOSTS, RESTARTS].into_iter().any(own) {
            kept.push(argument);
        }
    }
    kept
}

fn as_threads(count: usize, work: impl Fn(Option<Ranks>) -> Outcome + Sync) -> Outcome {
    let ended = threads::run(count, |communicator| {
        let ranks = Ranks::new(Arc::new(communicator));
        terminal::speak_here(ranks.rank() == 0);
        work(Some(ranks))
    });
    // The first rank reports a failure of all ranks; the others name a rank that failed alone.
    ended.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_started_with_the_other_arguments() {
        let kept = |given: &[&str]| {
            let kept = of_ranks(given.iter().map(OsString::from));
            kept.into_iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept(&["train", "x.toml", "--ranks", "4", "--data", "d"]), "train x.toml --data d");
        assert_eq!(kept(&["train", "--ranks=2", "x.toml"]), "train x.toml");
        assert_eq!(kept(&["predict", "run", "--hosts", "a:2,b", "-o", "out"]), "predict run -o out");
        assert_eq!(kept(&["predict", "--hosts=a:2,b", "run"]), "predict run");
        assert_eq!(kept(&["train", "x.toml"]), "train x.toml");
        assert_eq!(kept(&["train", "--max-restarts=3", "--ranks", "2", "x.toml", "--resume"]), "train x.toml --resume");
    }

    #[test]
    fn the_deadline_of_the_start_can_be_set() {
        let of = |given: Option<&str>| deadline_of(given.map(str::to_owned)).map_err(|error| error.line());
        assert_eq!(of(None).expect("the usual one"), DEADLINE);
        assert_eq!(of(Some(" 1.5 ")).expect("seconds"), Duration::from_millis(1500));
        for wrong in ["", "0", "-3", "NaN", "1e9", "five"] {
            let error = of(Some(wrong)).expect_err("no seconds");
            assert_eq!(error, format!("HEARTH_START_DEADLINE={wrong}: expected 0.1 to 86400 seconds"));
        }
    }

    #[test]
    fn the_first_process_of_torchrun_starts_the_ranks_of_one_machine() {
        let of = |set: &str| {
            let pairs = set.split_whitespace().filter_map(|pair| pair.split_once('='));
            of_torchrun(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
                .ok()
                .expect("numbers")
        };
        let first = "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2";
        assert_eq!(of(first), Some(Torchrun { count: 2, first: true }));
        let second = "RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2";
        assert_eq!(of(second), Some(Torchrun { count: 2, first: false }));
        // Two machines, one process, and a rank that was itself started by another launcher.
        assert_eq!(of("RANK=0 LOCAL_RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2"), None);
        assert_eq!(of("RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1"), None);
        let mpi = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0";
        assert_eq!(of(&format!("{first} {mpi}")), None);
    }

    #[test]
    fn a_rank_that_fails_fails_all() {
        let failed = as_threads(3, |ranks| {
            let rank = ranks.map_or(0, |ranks| ranks.rank());
            if rank == 2 { Err(Failure::new("no such card")) } else { Ok(()) }
        });
        assert!(failed.expect_err("one failed").line().contains("no such card"));
    }
}
