//! Ranks over TCP, as threads of one process: the results of each operation are those of ranks as
//! threads, to the bit; errors if a rank does not arrive; connections of others are refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use hearth_distributed::tcp::{Listening, Seat, Secret};
use hearth_distributed::{
    AllReduce, At, Cause, CommError, Communicator, Operation, Order, PeerState, TcpCommunicator, TcpError, Wire,
    gather_waits, straggler, threads,
};
use proptest::prelude::*;

/// Shorter than the limit of a test, longer than a thread needs to be scheduled.
const SHORT: Duration = Duration::from_millis(400);

fn at(step: u64) -> At {
    At::new("test", step).within(Duration::from_secs(30))
}

fn seats(listening: &[Listening]) -> Vec<Seat> {
    let seat = |(rank, listening): (usize, &Listening)| Seat {
        host: format!("host-{}", rank / 2),
        addresses: vec!["127.0.0.1".to_owned()],
        port: listening.port(),
    };
    listening.iter().enumerate().map(seat).collect()
}

/// Connects `world` ranks, and runs `work` as each of them in a thread.
fn connected<T: Send>(world: usize, work: impl Fn(TcpCommunicator) -> T + Sync) -> Vec<T> {
    let all: Vec<Listening> = (0..world).map(|rank| Listening::open(rank, 0).expect("a free port")).collect();
    let (seats, secret, work) = (&seats(&all), &Secret::draw().expect("random numbers"), &work);
    std::thread::scope(|scope| {
        let join = move |own: Listening| {
            work(TcpCommunicator::join(own, seats, secret, Duration::from_secs(30)).expect("all ranks connect"))
        };
        let started: Vec<_> = all.into_iter().map(|own| scope.spawn(move || join(own))).collect();
        let ended: Vec<_> = started.into_iter().map(|thread| thread.join()).collect();
        ended.into_iter().map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Runs until all ranks have finished, so that no rank reports that another has left.
fn run<T: Send>(world: usize, work: impl Fn(&dyn Communicator) -> Result<T, CommError> + Sync) -> Vec<T> {
    let ended = connected(world, |ranks| {
        let value = work(&ranks)?;
        ranks.finish(&at(u64::MAX))?;
        Ok::<T, CommError>(value)
    });
    ended.into_iter().map(|result| result.unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[test]
fn each_operation_gives_what_it_should() {
    for world in 1..=5 {
        run(world, |ranks| {
            let rank = ranks.rank();
            assert_eq!((ranks.world(), ranks.local_rank()), (world, rank % 2), "two ranks a host");
            let triangle = (world * (world + 1) / 2) as f32;
            for wire in [Wire::F32, Wire::Bf16] {
                for order in [Order::Rank, Order::Any] {
                    // Lengths that do not divide by the number of ranks, and fewer values than ranks.
                    for len in [0, 1, 3, 1001, 300_000] {
                        let own: Vec<f32> = (0..len).map(|i| ((rank + 1) * (i % 8)) as f32).collect();
                        let sum = ranks.all_reduce(own, AllReduce { wire, order }, &at(1))?;
                        assert_eq!(sum, (0..len).map(|i| triangle * (i % 8) as f32).collect::<Vec<_>>());
                    }
                }
            }
            assert_eq!(ranks.sum(&[0.1 * rank as f64, 1.0], &at(2))?[1], world as f64);
            let root = world - 1;
            let sent = if rank == root { vec![1, 2, 3] } else { vec![9] };
            assert_eq!(ranks.broadcast(sent, root, &at(3))?, [1, 2, 3]);
            assert_eq!(ranks.broadcast_f32(&[rank as f32], root, &at(4))?, [root as f32]);
            let parts: Vec<Vec<u8>> = (0..world).map(|rank| vec![rank as u8; rank]).collect();
            assert_eq!(ranks.all_gather(vec![rank as u8; rank], &at(5))?, parts);
            let gathered = ranks.gather(vec![rank as u8; rank], root, &at(6))?;
            assert_eq!(gathered, (rank == root).then_some(parts));
            ranks.barrier(&at(7))
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// The sums are those of ranks as threads, to the last bit, on each rank.
    #[test]
    fn sums_are_those_of_threads(
        values in prop::collection::vec(prop::collection::vec(-1e6_f32..1e6, 13), 1..5),
        bf16 in any::<bool>(),
    ) {
        let how = AllReduce { wire: if bf16 { Wire::Bf16 } else { Wire::F32 }, order: Order::Rank };
        let bits = |sum: Vec<f32>| sum.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let of = |ranks: &dyn Communicator| ranks.all_reduce(values[ranks.rank()].clone(), how, &at(0)).map(bits);
        let expected = threads::run(values.len(), |ranks| {
            let sum = of(&ranks).expect("a sum");
            ranks.finish(&at(1)).expect("all arrive");
            sum
        });
        prop_assert_eq!(run(values.len(), of), expected);
    }
}

#[test]
fn operations_are_started_and_waited_for_apart_in_any_order() {
    run(3, |ranks| {
        let start = |step: u64| ranks.start_all_reduce(vec![step as f32; 1000], AllReduce::default(), &at(step));
        let mut pending: Vec<_> = (0..10).map(start).collect();
        // One is not waited for at all.
        drop(pending.remove(4));
        for (sum, step) in pending.into_iter().rev().zip([9, 8, 7, 6, 5, 3, 2, 1, 0]) {
            assert_eq!(sum.wait()?, [3.0 * step as f32; 1000]);
        }
        Ok(())
    });
}

#[test]
fn a_rank_that_does_not_arrive_is_named_at_the_deadline() {
    let results = connected(3, |ranks| {
        ranks.barrier(&at(3)).expect("all arrive");
        if ranks.rank() == 1 {
            std::thread::sleep(SHORT * 6);
            return None;
        }
        let limited = At::new("gradients", 17).within(SHORT);
        let begin = Instant::now();
        let error = ranks.all_reduce(vec![0.0], AllReduce::default(), &limited).expect_err("rank 1 is missing");
        assert!(begin.elapsed() < SHORT * 4, "{:?}", begin.elapsed());
        let again = ranks.barrier(&at(18)).expect_err("an operation failed before");
        assert!(matches!(*again.cause, Cause::Earlier(_) | Cause::PeerFault { .. }), "{again}");
        Some(error)
    });
    let said: Vec<String> = results.into_iter().flatten().map(|error| error.to_string()).collect();
    assert_eq!(said.len(), 2);
    let first = said.iter().find(|said| said.contains("not finished after 0.4 s")).expect("one notices it");
    let expected = "all-reduce of phase gradients, step 17: not finished after 0.4 s; rank 1 on host-0 has not arrived; \
                    its last operation is barrier of phase test, step 3; rank ";
    assert!(first.contains(expected), "{first}");
}

#[test]
fn a_rank_that_has_started_nothing_is_told_apart() {
    let ended = Barrier::new(2);
    let results = connected(2, |ranks| {
        let error = (ranks.rank() == 0).then(|| ranks.barrier(&At::new("end", 0).within(SHORT)).expect_err("alone"));
        ended.wait();
        error
    });
    let error = results.into_iter().flatten().next().expect("the error of rank 0");
    let Cause::Deadline { waited, peers } = *error.cause else { panic!("{error}") };
    assert_eq!((waited, peers.len(), peers[0].rank), (SHORT, 1, 1));
    assert_eq!(peers[0].state, PeerState::Behind { last: String::new() });
}

#[test]
fn a_fault_a_leave_and_a_panic_are_reported_with_their_reason() {
    let results = connected(3, |ranks| {
        if ranks.rank() == 2 {
            ranks.abort(7, "spleen_12.nii.gz cannot be read");
        }
        ranks.barrier(&at(0)).map_err(|error| error.cause.to_string())
    });
    let said = "rank 2 on host-1 reported a fault (code 7): spleen_12.nii.gz cannot be read";
    assert_eq!(results, vec![Err(said.to_owned()); 3]);

    let left = connected(2, |ranks| match ranks.rank() {
        0 => ranks.barrier(&at(0)).map_err(|error| error.cause.to_string()),
        _ => Ok(()),
    });
    assert!(left[0].as_ref().is_err_and(|said| said.contains("it left before the run was finished")), "{left:?}");

    let begin = Instant::now();
    let panicked = connected(2, |ranks| {
        if ranks.rank() == 0 {
            return ranks.barrier(&at(0)).map_err(|error| error.cause.to_string());
        }
        let panics = move || {
            let _ranks = ranks;
            std::panic::resume_unwind(Box::new("as a test wants"));
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        Ok(())
    });
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(panicked[0].as_ref().is_err_and(|said| said.contains("(code 101): it panicked")), "{panicked:?}");
}

#[test]
fn operations_that_differ_are_named() {
    let differ = |mine: fn(usize) -> Operation| -> Vec<String> {
        connected(2, |ranks| {
            let own = ranks.start(mine(ranks.rank()), &at(1)).wait();
            let said = own.expect_err("they differ").cause.to_string();
            // Both have seen it before one leaves.
            std::thread::sleep(SHORT);
            said
        })
    };
    let kinds = differ(|rank| if rank == 0 { Operation::Barrier } else { Operation::AllGather { bytes: vec![] } });
    assert_eq!(
        kinds,
        [
            "rank 1 on host-0 started another operation here: all-gather of phase test, step 1",
            "rank 0 on host-0 started another operation here: barrier of phase test, step 1"
        ]
    );
    let roots = differ(|rank| Operation::Broadcast { bytes: vec![], root: rank });
    assert!(roots[0].ends_with("broadcast of phase test, step 1, root 1"), "{roots:?}");
    let lengths = differ(|rank| Operation::AllReduce { values: vec![0.0; rank + 1], how: AllReduce::default() });
    assert!(lengths[0].ends_with("step 1, 2 values, F32, order Rank"), "{lengths:?}");
}

#[test]
fn a_root_that_does_not_exist_is_refused_and_nothing_follows_the_end() {
    run(2, |ranks| {
        let error = ranks.broadcast(vec![], 2, &at(0)).expect_err("ranks 0 and 1");
        assert_eq!(*error.cause, Cause::NoSuchRank { root: 2 });
        ranks.barrier(&at(1))
    });
    let ended = connected(2, |ranks| {
        ranks.finish(&at(0)).expect("all arrive");
        *ranks.barrier(&at(1)).expect_err("finished").cause
    });
    assert_eq!(ended, vec![Cause::Finished; 2]);
}

#[test]
fn waits_find_the_straggler() {
    let found = run(3, |ranks| {
        for step in 0..3 {
            if ranks.rank() == 1 {
                std::thread::sleep(Duration::from_millis(60));
            }
            ranks.all_reduce(vec![0.0; 10], AllReduce::default(), &At::new("gradients", step))?;
        }
        gather_waits(ranks, &at(9))
    });
    let phase = &found[0][0].phases["gradients"];
    assert_eq!((phase.operations, phase.bytes), (3, 120));
    for waits in &found {
        assert_eq!(straggler(waits).map(|straggler| straggler.rank), Some(1));
    }
}

#[test]
fn connections_of_others_are_refused() {
    let all: Vec<Listening> = (0..2).map(|rank| Listening::open(rank, 0).expect("a free port")).collect();
    let (seats, secret) = (seats(&all), Secret::draw().expect("random numbers"));
    let [zero, one] = <[Listening; 2]>::try_from(all).expect("two ranks");
    let port = zero.port();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| TcpCommunicator::join(zero, &seats, &secret, Duration::from_secs(60)));
        // A browser, one that is silent, and a rank of another run.
        let mut browser = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        browser.write_all(&b"GET / HTTP/1.1\r\n\r\n".repeat(8)).expect("sent");
        let _silent = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let (mut answer, mut number) = (Vec::new(), [0; 32]);
        browser.read_exact(&mut number).expect("a random number");
        // The connection is closed without a proof, by an end or a reset.
        let _ = browser.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
        let stranger = Listening::open(1, 0).expect("a free port");
        let other = Secret::draw().expect("random numbers");
        let refused = TcpCommunicator::join(stranger, &seats, &other, Duration::from_secs(5)).map(|_| ());
        let Err(TcpError::Unreachable { rank: 0, host, tried }) = refused else { panic!("{refused:?}") };
        assert!(host == "host-0" && tried.contains("something else than that rank of this run answers"), "{tried}");
        let second = scope.spawn(|| TcpCommunicator::join(one, &seats, &secret, Duration::from_secs(60)));
        let both = [first, second].map(|thread| thread.join().expect("no panic").expect("connected"));
        let [zero, one] = &both;
        std::thread::scope(|scope| {
            scope.spawn(|| zero.finish(&at(0)).expect("all arrive"));
            one.finish(&at(0)).expect("all arrive");
        });
    });
}

#[test]
fn the_addresses_of_a_rank_are_tried_in_turn() {
    let all: Vec<Listening> = (0..2).map(|rank| Listening::open(rank, 0).expect("a free port")).collect();
    let (mut seats, secret) = (seats(&all), Secret::draw().expect("random numbers"));
    seats[0].addresses.insert(0, "no-such-host.invalid".to_owned());
    let (seats, secret) = (&seats, &secret);
    std::thread::scope(|scope| {
        for own in all {
            scope.spawn(move || {
                let ranks = TcpCommunicator::join(own, seats, secret, Duration::from_secs(60)).expect("connected");
                ranks.finish(&at(0)).expect("all arrive");
            });
        }
    });
}

#[test]
fn ranks_that_do_not_come_are_named() {
    let all: Vec<Listening> = (0..3).map(|rank| Listening::open(rank, 0).expect("a free port")).collect();
    let (seats, secret) = (seats(&all), Secret::draw().expect("random numbers"));
    let [zero, one, two] = <[Listening; 3]>::try_from(all).expect("three ranks");
    let late = TcpCommunicator::join(zero, &seats, &secret, SHORT).expect_err("no one comes");
    let missing = "rank 1 on host-0, rank 2 on host-1".to_owned();
    assert_eq!(late, TcpError::Late { missing, seconds: 0.4 });
    // Rank 0 no longer listens.
    let gone = TcpCommunicator::join(one, &seats, &secret, SHORT).expect_err("rank 0 is gone");
    assert!(matches!(gone, TcpError::Unreachable { rank: 0, .. }), "{gone}");
    let said = gone.to_string();
    assert!(said.starts_with("rank 0 on host-0 cannot be reached (127.0.0.1 port "), "{said}");
    let none = TcpCommunicator::join(two, &seats[..2], &secret, SHORT).expect_err("no place");
    assert_eq!(none, TcpError::NoSeat { rank: 2, seats: 2 });
}

#[test]
fn a_port_that_is_taken_is_named() {
    let first = Listening::open(0, 0).expect("a free port");
    let error = Listening::open(3, first.port()).expect_err("it is taken").to_string();
    assert!(
        error.starts_with(&format!("rank 3 cannot listen for the other ranks at port {}: ", first.port())),
        "{error}"
    );
}
