//! `hearth watch`: a run as it goes on, or the runs of a folder by rank.

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
    /// The folder of a run, or one that holds runs, which are shown by rank
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Serve a page for a browser on this machine, until Ctrl-C, and print its address
    #[arg(long)]
    pub page: bool,
    /// The page's port; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "page")]
    pub port: u16,
    /// Wait for a folder that is not there yet
    #[arg(long)]
    pub wait: bool,
    /// Print lines on a terminal, too: one for each epoch
    #[arg(long, conflicts_with = "page")]
    pub lines: bool,
    /// Print how things stand, and end
    #[arg(long, conflicts_with_all = ["page", "lines"])]
    pub once: bool,
}

/// Watches until the run ends, or Ctrl-C.
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
    // What the screen showed is gone with it.
    if matches!(follower.seen(), Seen::Run(_)) && !matches!(end, End::Bad(_)) {
        hearth_watch::once(&follower, print);
    }
    ended(end, true)
}

/// The exit code: 0 for a run that came to its end, 1 for one that did not, and 130 where Ctrl-C
/// ended lines before the run ended.
fn ended(end: End, may_leave: bool) -> Outcome {
    match end {
        End::Good(_) => Ok(()),
        End::Bad(words) => Err(Failure::new(words)),
        End::Left if may_leave => Ok(()),
        End::Left => Err(Failure::interrupted()),
    }
}
