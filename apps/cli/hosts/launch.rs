//! The launcher of `--hosts`: starts the ranks, introduces them to each other, prints what they print,
//! and ends all of them when one ends early: [`start`].

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hearth_train::distributed::tcp::{Seat, Secret};

use super::dialog::{Greeting, INTERRUPT, MARK, Table, addresses};
use super::rank::GRACE;
use super::remote::{NO_FOLDER, NO_PROGRAM, PROGRAM, SSH, Work};
use super::{Host, Place, places};
use crate::error::{Context, Failure, Outcome};
use crate::ranks::{Ended, Restarts, start_deadline, until_done};
use crate::version::Version;
use crate::{interrupt, note, terminal};

/// The interval at which the processes are checked.
const LOOK: Duration = Duration::from_millis(20);

/// The time that the ranks have to end when their input has ended: a little more than they take.
const END: Duration = Duration::from_secs(GRACE.as_secs() + 2);

/// The lines of a rank that are kept until it has joined.
const KEPT: usize = 20;

/// The exit code of `ssh` if it has no connection.
const NO_CONNECTION: i32 = 255;

/// Runs this command as ranks on these machines.
///
/// # Errors
/// If a rank cannot be started, ends with an error, or the user interrupts them.
pub fn start(hosts: &[Host], restarts: &Restarts<'_>) -> Outcome {
    let mut names: Vec<&str> = hosts.iter().map(Host::name).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = twice[0];
        return Err(Failure::new(format!("--hosts: {name} is listed twice; give its number of ranks: {name}:2")));
    }
    let places = places(hosts);
    if places.len() < 2 {
        return Err(Failure::new("--hosts: one rank shares nothing; give the numbers of ranks: a:2,b:2"));
    }
    // Ranks are in groups of their own, which Ctrl-C does not reach: they hear of it from here.
    let asked = Arc::new(AtomicBool::new(false));
    interrupt::listen_to_launcher(Arc::clone(&asked))?;
    until_done(restarts, &asked, |again| {
        let work = Work::of_this_command(again)?;
        let mut started = Vec::with_capacity(places.len());
        let (greetings, greeted) = channel();
        for place in &places {
            started.push(Started::new(&work, *place, &greetings)?);
        }
        drop(greetings);
        let ranks = Ranks { work, started };
        ranks.conduct(&greeted, &asked)
    })
}

/// What a rank has printed to standard error before it has joined.
#[derive(Default)]
struct Held {
    joined: bool,
    lines: VecDeque<String>,
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process of a rank: of the program, or of `ssh`.
struct Started<'a> {
    place: Place<'a>,
    child: Child,
    input: Option<ChildStdin>,
    held: Arc<Mutex<Held>>,
    status: Option<ExitStatus>,
}

impl<'a> Started<'a> {
    fn new(work: &Work, place: Place<'a>, greetings: &Sender<(usize, Greeting)>) -> Outcome<Self> {
        let mut command = work.command(&place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        own_group(&mut command);
        let mut child = command.spawn().map_err(|error| {
            let name = command.get_program().to_string_lossy();
            let what = format!("{}: cannot start {name}", place.host.target);
            match error.kind() {
                ErrorKind::NotFound if !place.host.is_here() => {
                    let remedy = format!("install OpenSSH's client, or name another command in {SSH}");
                    Failure::new(format!("{what}, which is not installed: {remedy}"))
                }
                _ => Failure::from(error).context(what),
            }
        })?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let held = Arc::new(Mutex::new(Held::default()));
        let started = Started { place, child, input, held: held.clone(), status: None };
        let (name, rank) = (started.prefix(), place.rank);
        let (of_output, greetings) = (name.clone(), greetings.clone());
        let doing = || "--hosts: cannot start a thread";
        if let Some(output) = output {
            let thread = std::thread::Builder::new().name("hearth-output".to_owned());
            thread.spawn(move || print_output(output, rank, &of_output, &greetings)).while_doing(doing)?;
        }
        if let Some(errors) = errors {
            let thread = std::thread::Builder::new().name("hearth-errors".to_owned());
            thread.spawn(move || print_errors(errors, rank, &name, &held)).while_doing(doing)?;
        }
        Ok(started)
    }

    /// What starts a line of a rank other than the first.
    fn prefix(&self) -> String {
        format!("[{}] ", self.name())
    }

    fn name(&self) -> String {
        format!("rank {} on {}", self.place.rank, self.place.host.target)
    }

    /// The exit status, once the process has ended.
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            // A process that cannot be asked is waited for until it is killed.
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    fn write(&mut self, line: &str) {
        if let Some(input) = &mut self.input
            && input.write_all(format!("{line}\n").as_bytes()).and_then(|()| input.flush()).is_err()
        {
            // The process has ended, which is noticed by its status.
            self.input = None;
        }
    }

    /// How a process ended that failed.
    fn failure(&self) -> Option<(bool, String)> {
        let status = self.status.filter(|status| !status.success())?;
        let name = self.name();
        Some(match status.code() {
            Some(NO_CONNECTION) if !self.place.host.is_here() => {
                let why = "the connection is lost, or the rank was killed";
                (true, format!("{name}: ssh ended with exit code {NO_CONNECTION}: {why}"))
            }
            // A shell's exit code for a process that a signal ended.
            Some(code) if code > 128 && code != 130 => (true, format!("{name} was killed by signal {}", code - 128)),
            Some(code) => (false, format!("{name} ended with exit code {code}")),
            None => (true, format!("{name} was killed: {status}")),
        })
    }

    /// Why a rank ended before it joined.
    fn why_not_started(&self, work: &Work) -> Failure {
        // What it printed may still be on its way.
        std::thread::sleep(LOOK * 5);
        let host = &self.place.host.target;
        let code = self.status.and_then(|status| status.code());
        let lines: Vec<String> = lock(&self.held).lines.iter().rev().take(5).rev().cloned().collect();
        let said = if lines.is_empty() { String::new() } else { format!(": {}", lines.join("\n")) };
        let Work { folder, program, .. } = work;
        Failure::new(match code {
            Some(NO_FOLDER) => {
                let remedy = "ranks start in the folder of this command, with the same files on all hosts";
                format!("{host}: there is no folder {folder}; {remedy}")
            }
            Some(NO_PROGRAM) => {
                let remedy = format!("install it at the same place, or name its path there in {PROGRAM}");
                format!("{host}: there is no program {program}; {remedy}")
            }
            Some(NO_CONNECTION) if !self.place.host.is_here() => {
                format!("{host}: {} has no connection (exit code {NO_CONNECTION}){said}", work.ssh())
            }
            Some(code) => format!("{host}: rank {} ended before it joined (exit code {code}){said}", self.place.rank),
            None => format!("{host}: rank {} was killed before it joined{said}", self.place.rank),
        })
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        // The end of the input ends a rank on another host, which a killed `ssh` would leave.
        self.input = None;
        if self.ended().is_none() {
            // It may have ended by itself in between.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Ctrl-C in the terminal reaches the launcher alone.
fn own_group(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// The lines of a stream as they arrive, without their ends.
fn each_line(stream: impl Read, mut take: impl FnMut(&str)) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        take(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
}

/// Finds the greeting of a rank, and prints its later lines.
fn print_output(output: impl Read, rank: usize, prefix: &str, greetings: &Sender<(usize, Greeting)>) {
    let mut greeted = false;
    each_line(output, |line| {
        if greeted {
            match rank {
                0 => terminal::line(format_args!("{line}")),
                _ => note!("{prefix}{line}"),
            }
            return;
        }
        let found = line.split_once(MARK).and_then(|(_, greeting)| serde_json::from_str(greeting).ok());
        match found {
            Some(greeting) => {
                greeted = true;
                // Without a receiver the ranks are ended.
                let _ = greetings.send((rank, greeting));
            }
            None => tracing::debug!("{prefix}{line}"),
        }
    });
}

/// Prints what a rank reports once it has joined, and keeps it until then.
fn print_errors(errors: impl Read, rank: usize, prefix: &str, held: &Mutex<Held>) {
    each_line(errors, |line| {
        let mut held = lock(held);
        if held.joined {
            let prefix = if rank == 0 { "" } else { prefix };
            terminal::error_line(format_args!("{prefix}{line}"));
            return;
        }
        if held.lines.len() == KEPT {
            held.lines.pop_front();
        }
        held.lines.push_back(line.to_owned());
    });
}

/// All ranks of a run.
struct Ranks<'a> {
    work: Work,
    started: Vec<Started<'a>>,
}

impl Ranks<'_> {
    /// Follows the ranks from their start to their end.
    fn conduct(mut self, greeted: &Receiver<(usize, Greeting)>, asked: &AtomicBool) -> Outcome<Ended> {
        let Some(greetings) = self.greetings(greeted, asked)? else { return Ok(Ended::Interrupted) };
        self.introduce(&greetings)?;
        for rank in &self.started {
            let mut held = lock(&rank.held);
            held.joined = true;
            let prefix = if rank.place.rank == 0 { String::new() } else { rank.prefix() };
            held.lines.drain(..).for_each(|line| terminal::error_line(format_args!("{prefix}{line}")));
        }
        Ok(self.follow(asked))
    }

    /// The greeting of each rank; `None` if the user does not wait for them.
    fn greetings(
        &mut self,
        greeted: &Receiver<(usize, Greeting)>,
        asked: &AtomicBool,
    ) -> Outcome<Option<Vec<Greeting>>> {
        let (begin, deadline) = (Instant::now(), start_deadline()?);
        let mut found: Vec<Option<Greeting>> = self.started.iter().map(|_| None).collect();
        while found.iter().any(Option::is_none) {
            if asked.load(Ordering::SeqCst) {
                return Ok(None);
            }
            while let Ok((rank, greeting)) = greeted.try_recv() {
                found[rank] = Some(greeting);
            }
            if let Some(rank) = self.started.iter_mut().find_map(|rank| rank.ended().map(|_| rank)) {
                return Err(rank.why_not_started(&self.work));
            }
            if begin.elapsed() > deadline {
                let missing = self.started.iter().filter(|rank| found[rank.place.rank].is_none());
                let missing: Vec<String> = missing.map(Started::name).collect();
                let (missing, seconds) = (missing.join(", "), deadline.as_secs_f64());
                let why = format!("--hosts: after {seconds} s nothing is heard of {missing}");
                return Err(Failure::new(format!("{why}; try {} by hand", self.work.ssh())));
            }
            std::thread::sleep(LOOK);
        }
        Ok(Some(found.into_iter().flatten().collect()))
    }

    /// Gives each rank the places of all, and the secret of the run.
    fn introduce(&mut self, greetings: &[Greeting]) -> Outcome {
        let own = Version::here();
        for (rank, found) in self.started.iter().zip(greetings) {
            if (&*found.version, &*found.commit) != (own.version, own.commit) {
                let there = format!("hearth {} ({})", found.version, found.commit);
                let here = format!("this one {} ({})", own.version, own.commit);
                let remedy = "install the same version on all hosts";
                return Err(Failure::new(format!("{}: runs {there}, {here}; {remedy}", rank.place.host.target)));
            }
        }
        let seats = self.started.iter().zip(greetings).map(|(rank, own)| {
            let host = rank.place.host;
            let addresses = addresses(own, host.name(), host.is_here(), greetings);
            Seat { host: host.name().to_owned(), addresses, port: own.port }
        });
        let table = Table { secret: Secret::draw()?.to_hex(), seats: seats.collect() };
        let line = serde_json::to_string(&table)?;
        self.started.iter_mut().for_each(|rank| rank.write(&line));
        Ok(())
    }

    /// Waits for the end of all ranks; when one has failed, the others have a while to notice it.
    fn follow(&mut self, asked: &AtomicBool) -> Ended {
        let (mut was_asked, mut failed, mut closed) = (false, None::<Instant>, None::<Instant>);
        loop {
            if asked.load(Ordering::SeqCst) && !std::mem::replace(&mut was_asked, true) {
                self.started.iter_mut().for_each(|rank| rank.write(INTERRUPT));
            }
            let running = self.started.iter_mut().map(Started::ended).filter(Option::is_none).count();
            if running == 0 {
                break;
            }
            if self.started.iter().any(|rank| rank.status.is_some_and(|status| !status.success())) {
                failed.get_or_insert_with(Instant::now);
            }
            if failed.is_some_and(|since| since.elapsed() > GRACE) && closed.is_none() {
                self.started.iter_mut().for_each(|rank| rank.input = None);
                closed = Some(Instant::now());
            }
            if closed.is_some_and(|since| since.elapsed() > END) {
                let left = self.started.iter().filter(|rank| rank.status.is_none());
                left.for_each(|rank| note!("{} does not end, and is killed", rank.name()));
                break;
            }
            std::thread::sleep(LOOK);
        }
        let interrupted = |rank: &Started<'_>| rank.status.is_some_and(|status| status.code() == Some(130));
        let mut failures: Vec<(bool, String)> = self.started.iter().filter_map(Started::failure).collect();
        // A rank that was killed is why the others have failed.
        failures.sort_by_key(|(is_cause, _)| !is_cause);
        // The last lines of the ranks are printed before what follows from them.
        std::thread::sleep(LOOK);
        match failures.into_iter().next() {
            None => Ended::Done,
            Some(_) if was_asked || self.started.iter().any(interrupted) => Ended::Interrupted,
            Some((_, why)) => Ended::Failed(format!("{why}; see above")),
        }
    }
}
