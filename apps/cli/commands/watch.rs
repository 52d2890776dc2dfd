//! `hearth watch`: follows a running training, or ranks the runs of a folder.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hearth_watch::{End, Follower, Seen};

use crate::error::{Context, Failure, Outcome};
use crate::terminal::colours_on_stdout;
use crate::{note, out};

/// Arguments of `hearth watch`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run, or a folder of runs, which are shown by rank
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Serve a web page on this machine until Ctrl-C, and print its address
    #[arg(long)]
    pub page: bool,
    /// The port of the page; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "page")]
    pub port: u16,
    /// Wait for the folder if it does not exist yet
    #[arg(long)]
    pub wait: bool,
    /// Print one line per epoch even on a terminal
    #[arg(long, conflicts_with = "page")]
    pub lines: bool,
    /// Print the current state, and end
    #[arg(long, conflicts_with_all = ["page", "port", "lines"])]
    pub once: bool,
}

/// Watches until the run ends or Ctrl-C is pressed.
pub fn run(args: &Args) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).while_doing(|| "cannot listen for Ctrl-C")?;
    let mut follower = Follower::new(&args.run, args.wait)?;
    let print = |line: &str| out!("{line}");
    if args.once {
        hearth_watch::once(&follower, print);
        return Ok(());
    }
    if args.page {
        let started = |address: &str| {
            out!("{address}");
            note!("open it on this machine, or through a tunnel (ssh -L); Ctrl-C ends the page and not the run");
        };
        return ended(hearth_watch::page(&mut follower, args.port, &stop, started, print)?, true);
    }
    let obeys = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    if args.lines || !obeys {
        return ended(hearth_watch::lines(&mut follower, &stop, print)?, false);
    }
    let end = hearth_watch::screen(&mut follower, colours_on_stdout(), &stop)?;
    // The summary remains after the screen is cleared.
    if matches!(follower.seen(), Seen::Run(_)) && !matches!(end, End::Bad(_)) {
        hearth_watch::once(&follower, print);
    }
    ended(end, true)
}

/// The exit code: 0 for a run that completed, 1 for one that did not, and 130 if Ctrl-C ended the line
/// output before the run ended.
fn ended(end: End, may_leave: bool) -> Outcome {
    match end {
        End::Good(_) => Ok(()),
        End::Bad(words) => Err(Failure::new(words)),
        End::Left if may_leave => Ok(()),
        End::Left => Err(Failure::interrupted()),
    }
}
