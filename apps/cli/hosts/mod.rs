//! Ranks on several machines without MPI: `--hosts a:2,b:2` starts them over `ssh`.
//!
//! The launcher ([`start`]) starts this program once for each rank, in the same folder and with the
//! same arguments, and speaks with each rank over its standard input and output:
//!
//! 1. The rank prints a `Greeting`: its version, and the port at which it listens.
//! 2. The launcher answers with the `Table` of all ranks and the secret of the run,
//!    which is in no argument and no variable. The ranks connect over TCP ([`rank::join`]).
//! 3. Ctrl-C is passed on as a line. If the input ends, the launcher is gone, and the rank ends.

mod dialog;
mod launch;
pub mod rank;
mod remote;

use std::str::FromStr;

pub use launch::start;
pub use remote::{SSH, ssh_words};

/// The most ranks of a host.
const MOST: usize = 1024;

/// A machine of `--hosts`, with its number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The machine as `ssh` takes it: `node1`, `me@node1`.
    pub target: String,
    /// The number of ranks.
    pub ranks: usize,
}

impl Host {
    /// The machine without the user.
    pub fn name(&self) -> &str {
        self.target.rsplit_once('@').map_or(&*self.target, |(_, name)| name)
    }

    /// Whether this is the machine of the launcher, which needs no `ssh`.
    fn is_here(&self) -> bool {
        let here = ["localhost", "127.0.0.1", "::1"];
        here.contains(&&*self.target) || Some(&self.target) == dialog::host_name().as_ref()
    }
}

impl FromStr for Host {
    type Err = String;

    /// Reads `HOST`, `HOST:RANKS`, `USER@HOST:RANKS`, `[ADDRESS]:RANKS`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{why}; give HOST or HOST:RANKS, such as node1:4");
        let (user, rest) = text.rsplit_once('@').map_or((None, text), |(user, rest)| (Some(user), rest));
        let (name, ranks) = match rest.strip_prefix('[') {
            Some(inside) => {
                let (name, after) = inside.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
                let ranks = after.strip_prefix(':');
                if ranks.is_none() && !after.is_empty() {
                    return Err(wrong("text follows the bracket"));
                }
                (name, ranks)
            }
            None => rest.split_once(':').map_or((rest, None), |(name, ranks)| (name, Some(ranks))),
        };
        // `ssh` would take a leading hyphen for an option.
        let is_name = |name: &str, more: &str| {
            let fits = |c: char| c.is_alphanumeric() || more.contains(c);
            !name.is_empty() && !name.starts_with('-') && name.chars().all(fits)
        };
        if !is_name(name, "._-:%") || user.is_some_and(|user| !is_name(user, "._-+@\\")) {
            return Err(wrong(&format!("{rest:?} is not the name of a host")));
        }
        let ranks = ranks.map_or(Ok(1), str::parse::<usize>).ok().filter(|ranks| (1..=MOST).contains(ranks));
        let ranks = ranks.ok_or_else(|| wrong(&format!("the number of ranks is not 1 to {MOST}")))?;
        let target = user.map_or_else(|| name.to_owned(), |user| format!("{user}@{name}"));
        Ok(Host { target, ranks })
    }
}

/// The place of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<'a> {
    host: &'a Host,
    rank: usize,
    world: usize,
    /// The number of this rank on its host.
    local: usize,
}

/// The places of all ranks, those of a host next to each other.
fn places<'a>(hosts: &'a [Host]) -> Vec<Place<'a>> {
    let world = hosts.iter().map(|host| host.ranks).sum();
    let of_host = |host: &'a Host| (0..host.ranks).map(move |local| (host, local));
    let each = hosts.iter().flat_map(of_host).enumerate();
    each.map(|(rank, (host, local))| Place { host, rank, world, local }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn hosts_have_users_addresses_and_ranks() {
        let of = |target: &str, ranks| Host { target: target.to_owned(), ranks };
        assert_eq!(host("node1"), of("node1", 1));
        assert_eq!(host("me@node-1.site:4"), of("me@node-1.site", 4));
        assert_eq!(host("10.0.0.7:2"), of("10.0.0.7", 2));
        assert_eq!(host("me@[fe80::1%eth0]:3"), of("me@fe80::1%eth0", 3));
        assert_eq!((host("me@[::1]").name(), host("me@[::1]").is_here()), ("::1", false));
        assert!(host("localhost:2").is_here() && !host("elsewhere").is_here());
        for wrong in [
            "",
            ":2",
            "a:0",
            "a:x",
            "a:2:3",
            "-oProxyCommand=x",
            "me@-x",
            "a b",
            "[::1",
            "[::1]2",
            "a:9999",
            "a;b",
            "@a",
        ] {
            let why = wrong.parse::<Host>().expect_err(wrong);
            assert!(why.ends_with("give HOST or HOST:RANKS, such as node1:4"), "{why}");
        }
    }

    #[test]
    fn ranks_of_a_host_follow_each_other() {
        let hosts = ["a:2", "b", "c:3"].map(host);
        let found: Vec<_> = places(&hosts).iter().map(|at| (at.host.name(), at.rank, at.local, at.world)).collect();
        assert_eq!(
            found,
            [("a", 0, 0, 6), ("a", 1, 1, 6), ("b", 2, 0, 6), ("c", 3, 0, 6), ("c", 4, 1, 6), ("c", 5, 2, 6)]
        );
    }
}
