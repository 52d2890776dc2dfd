//! What a rank and its launcher exchange: a line each.

use std::fs;

use hearth_train::distributed::tcp::Seat;
use serde::{Deserialize, Serialize};

/// The start of the line with a [`Greeting`]: shells of a login may print others.
pub const MARK: &str = "hearth-rank ";

/// The line that asks a rank to stop, as Ctrl-C does.
pub const INTERRUPT: &str = "interrupt";

/// The first line of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The rank's program.
    pub version: String,
    /// The commit from which it was built.
    pub commit: String,
    /// The name of its machine.
    pub host: Option<String>,
    /// The port at which it listens.
    pub port: u16,
    /// The address from which `ssh` came, and that which it reached.
    pub route: Option<(String, String)>,
}

/// The answer of the launcher.
#[derive(Serialize, Deserialize)]
pub struct Table {
    /// The secret of the run, in hexadecimal digits.
    pub secret: String,
    /// Where each rank can be reached.
    pub seats: Vec<Seat>,
}

/// The name of this machine.
pub fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim_end().to_owned()).filter(|name| !name.is_empty())
}

/// The two addresses of a connection in the words of `SSH_CONNECTION`: the client and its port, the
/// server and its port.
pub fn route(connection: &str) -> Option<(String, String)> {
    let words: Vec<&str> = connection.split_whitespace().collect();
    let [from, _, to, _] = words[..] else { return None };
    Some((from.to_owned(), to.to_owned()))
}

/// The addresses at which the other ranks try to reach one: where `ssh` reached it, its name as it was
/// given, its own name; on the launcher's machine, where the other hosts saw `ssh` come from.
pub fn addresses(own: &Greeting, name: &str, is_here: bool, all: &[Greeting]) -> Vec<String> {
    let mut found: Vec<String> = match (is_here, &own.route) {
        (true, _) => all.iter().filter_map(|other| Some(other.route.as_ref()?.0.clone())).collect(),
        (false, Some((_, reached))) => vec![reached.clone(), name.to_owned()],
        (false, None) => vec![name.to_owned()],
    };
    // If no rank is elsewhere, all are here.
    if !is_here || !found.is_empty() {
        found.extend(own.host.clone());
    }
    if is_here {
        found.push("127.0.0.1".to_owned());
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|address| seen.insert(address.clone()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(host: &str, route: Option<(&str, &str)>) -> Greeting {
        let route = route.map(|(from, to)| (from.to_owned(), to.to_owned()));
        let (version, commit) = (String::new(), String::new());
        Greeting { version, commit, host: Some(host.to_owned()), port: 1, route }
    }

    #[test]
    fn a_rank_is_reached_where_ssh_reached_it() {
        assert_eq!(route("10.0.0.1 50000 10.0.0.2 22"), Some(("10.0.0.1".to_owned(), "10.0.0.2".to_owned())));
        assert_eq!(route("10.0.0.1 50000"), None);
        let here = greeting("desk", None);
        let there = greeting("node", Some(("10.0.0.1", "10.0.0.2")));
        let all = [here.clone(), there.clone(), there.clone()];
        assert_eq!(addresses(&there, "n", false, &all), ["10.0.0.2", "n", "node"]);
        assert_eq!(addresses(&here, "localhost", true, &all), ["10.0.0.1", "desk", "127.0.0.1"]);
        assert_eq!(addresses(&here, "localhost", true, &all[..1]), ["127.0.0.1"]);
        assert_eq!(addresses(&greeting("node", None), "node", false, &all), ["node"]);
    }
}
