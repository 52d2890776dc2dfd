//! The error of connecting ranks over TCP: [`TcpError`].

/// The reason why ranks cannot be connected over TCP.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TcpError {
    /// The port cannot be opened.
    #[error("rank {rank} cannot listen for the other ranks{}: {why}", of_port(.port))]
    Listen {
        /// This rank.
        rank: usize,
        /// The requested port; 0 for any.
        port: u16,
        /// The system's error.
        why: String,
    },
    /// No address of a rank answers.
    #[error(
        "rank {rank} on {host} cannot be reached ({tried}): the hosts need a network on which they reach each other's \
         ports; HEARTH_PORT=P lets rank R listen at port P + R, for a firewall"
    )]
    Unreachable {
        /// The rank.
        rank: usize,
        /// The rank's host.
        host: String,
        /// Each address with the system's error.
        tried: String,
    },
    /// Ranks did not connect in time.
    #[error("after {seconds} s no connection from {missing}: one of them has ended, or cannot reach this host")]
    Late {
        /// The missing ranks and their hosts.
        missing: String,
        /// The deadline, in seconds.
        seconds: f64,
    },
    /// The table of ranks has no place for this one.
    #[error("the table of ranks has {seats} places, and none for rank {rank}")]
    NoSeat {
        /// This rank.
        rank: usize,
        /// The number of ranks in the table.
        seats: usize,
    },
    /// The system has no random numbers for the secret of the ranks.
    #[error("no random numbers for the secret of the ranks: {0}")]
    Random(String),
    /// The system refuses a thread or a setting of a connection.
    #[error("the connections between the ranks cannot be set up: {0}")]
    System(String),
}

fn of_port(port: &u16) -> String {
    if *port == 0 { String::new() } else { format!(" at port {port}") }
}
