//! A rank that `--hosts` started: how it joins the others, and hears of its launcher.

use std::io::Write;
use std::time::Duration;

use hearth_train::distributed::tcp::{Listening, Secret};
use hearth_train::distributed::{Placement, TcpCommunicator};

use super::dialog::{Greeting, INTERRUPT, MARK, Table, host_name, route};
use crate::error::{Context, Failure, Outcome};
use crate::interrupt;
use crate::version::Version;

/// The variable with the port of rank 0; that of rank R is R higher. Without it, any free one is used.
pub const PORT: &str = "HEARTH_PORT";

/// The time that a rank has to finish its step and write a checkpoint when its launcher is gone.
pub const GRACE: Duration = Duration::from_secs(10);

/// Joins the ranks that the launcher has started.
///
/// # Errors
/// If the launcher is gone, or a rank cannot be reached.
pub fn join(placement: &Placement, deadline: Duration) -> Outcome<TcpCommunicator> {
    let port = port(std::env::var(PORT).ok(), placement)?;
    let listening = Listening::open(placement.rank, port)?;
    let Version { version, commit, .. } = Version::here();
    let greeting = Greeting {
        version: version.to_owned(),
        commit: commit.to_owned(),
        host: host_name(),
        port: listening.port(),
        route: std::env::var("SSH_CONNECTION").ok().and_then(|words| route(&words)),
    };
    let line = format!("{MARK}{}\n", serde_json::to_string(&greeting)?);
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).while_doing(|| "cannot reach the launcher")?;
    drop(output);
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).while_doing(|| "cannot hear the launcher")?;
    let gone = || Failure::new(format!("rank {}: the launcher has ended before all ranks had started", placement.rank));
    let table: Table = serde_json::from_str(&answer).map_err(|_| gone())?;
    let secret = Secret::of_hex(&table.secret).ok_or_else(gone)?;
    listen_to_launcher().while_doing(|| "cannot listen to the launcher")?;
    Ok(TcpCommunicator::join(listening, &table.seats, &secret, deadline)?)
}

/// The port of this rank; 0 for any.
fn port(given: Option<String>, placement: &Placement) -> Outcome<u16> {
    let Some(given) = given else { return Ok(0) };
    let first = given.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let own = first.and_then(|first| first.checked_add(u16::try_from(placement.rank).ok()?));
    let wrong = || format!("{PORT}={given}: expected 1 to 65535, with a port for each of {} ranks", placement.world);
    own.ok_or_else(|| Failure::new(wrong()))
}

/// Hears of Ctrl-C, and of the end of the launcher, from a thread.
fn listen_to_launcher() -> std::io::Result<()> {
    let listen = || {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|length| length > 0) {
            if line.trim_end() == INTERRUPT {
                interrupt::request();
            }
            line.clear();
        }
        // As Ctrl-C, twice.
        interrupt::request();
        std::thread::sleep(GRACE);
        interrupt::request();
    };
    std::thread::Builder::new().name("hearth-launcher".to_owned()).spawn(listen).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_train::distributed::Launcher;

    #[test]
    fn each_rank_has_a_port_of_its_own() {
        let of = |given: &str, rank| {
            let placement = Placement { rank, world: 4, local_rank: Some(rank), launcher: Launcher::Hearth };
            port(Some(given.to_owned()), &placement).map_err(|failure| failure.line())
        };
        assert_eq!((of("47000", 0).ok(), of(" 47000 ", 3).ok()), (Some(47000), Some(47003)));
        for (wrong, rank) in [("0", 0), ("65534", 3), ("x", 0), ("-1", 0), ("", 0)] {
            let expected = format!("HEARTH_PORT={wrong}: expected 1 to 65535, with a port for each of 4 ranks");
            assert_eq!(of(wrong, rank), Err(expected));
        }
    }
}
