//! Ranks as threads: the results of each operation, and the errors if a rank does not arrive.

use std::time::{Duration, Instant};

use hearth_distributed::{
    AllReduce, At, Cause, CommError, Communicator, Operation, Order, PeerState, Received, ThreadCommunicator, Wire,
    gather_waits, straggler, threads,
};
use proptest::prelude::*;

/// Shorter than the limit of a test, longer than a thread needs to be scheduled.
const SHORT: Duration = Duration::from_millis(300);

fn at(step: u64) -> At {
    At::new("test", step).within(Duration::from_secs(20))
}

/// Runs until all ranks have finished, so that no rank reports that another has left.
fn run<T: Send>(world: usize, work: impl Fn(&ThreadCommunicator) -> Result<T, CommError> + Sync) -> Vec<T> {
    threads::run(world, |ranks| {
        let value = work(&ranks)?;
        ranks.finish(&at(u64::MAX))?;
        Ok::<T, CommError>(value)
    })
    .into_iter()
    .map(|result| result.unwrap_or_else(|error| panic!("{error}")))
    .collect()
}

#[test]
fn each_operation_gives_what_it_should() {
    for world in 1..=5 {
        run(world, |ranks| {
            let rank = ranks.rank();
            assert_eq!((ranks.world(), ranks.local_rank(), ranks.local_world()), (world, rank, world));
            let triangle = (world * (world + 1) / 2) as f32;
            for wire in [Wire::F32, Wire::Bf16] {
                for order in [Order::Rank, Order::Any] {
                    let own: Vec<f32> = (0..7).map(|i| ((rank + 1) * i) as f32).collect();
                    let sum = ranks.all_reduce(own, AllReduce { wire, order }, &at(1))?;
                    assert_eq!(sum, (0..7).map(|i| triangle * i as f32).collect::<Vec<_>>());
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
    /// The sum equals that of one process that adds the ranks' values in order in f64, to the last
    /// bit, on each rank.
    #[test]
    fn sums_by_rank_are_those_of_one_process(
        values in prop::collection::vec(prop::collection::vec(-1e6_f32..1e6, 13), 1..5),
    ) {
        let one: Vec<u32> = (0..13)
            .map(|i| (values.iter().map(|own| f64::from(own[i])).sum::<f64>() as f32).to_bits())
            .collect();
        let sums = run(values.len(), |ranks| {
            ranks.all_reduce(values[ranks.rank()].clone(), AllReduce::default(), &at(0))
        });
        for sum in sums {
            prop_assert_eq!(sum.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), one.clone());
        }
    }
}

#[test]
fn operations_are_started_and_waited_for_apart_in_any_order() {
    run(3, |ranks| {
        let start = |step: u64| ranks.start_all_reduce(vec![step as f32], AllReduce::default(), &at(step));
        let mut pending: Vec<_> = (0..10).map(start).collect();
        // One is not waited for at all.
        drop(pending.remove(4));
        for (sum, step) in pending.into_iter().rev().zip([9, 8, 7, 6, 5, 3, 2, 1, 0]) {
            assert_eq!(sum.wait()?, [3.0 * step as f32]);
        }
        Ok(())
    });
}

#[test]
fn a_rank_that_does_not_arrive_is_named_at_the_deadline() {
    let results = threads::run(3, |ranks| {
        let limited = At::new("gradients", 17).within(SHORT);
        match ranks.rank() {
            1 => {
                ranks.barrier(&at(3)).expect("all arrive");
                std::thread::sleep(SHORT * 3);
                Ok(())
            }
            _ => {
                ranks.barrier(&at(3)).expect("all arrive");
                let begin = Instant::now();
                let result = ranks.all_reduce(vec![0.0], AllReduce::default(), &limited).map(|_| ());
                assert!(begin.elapsed() < SHORT * 2);
                let again = ranks.barrier(&at(18)).expect_err("an operation failed before");
                assert!(matches!(*again.cause, Cause::PeerFault { .. } | Cause::Deadline { .. }), "{again}");
                result
            }
        }
    });
    let said: Vec<String> =
        results.iter().filter_map(|result| result.as_ref().err()).map(CommError::to_string).collect();
    assert_eq!(said.len(), 2);
    let first = said.iter().find(|said| said.contains("not finished after 0.3 s")).expect("one notices it");
    assert!(
        first.contains("of 3 on this process: all-reduce of phase gradients, step 17: not finished after 0.3 s; rank 1 on this process has not arrived; its last operation is barrier of phase test, step 3; rank "),
        "{first}"
    );
}

#[test]
fn peers_are_told_apart_in_the_error() {
    let results = threads::run(2, |ranks| {
        if ranks.rank() == 0 {
            return ranks.barrier(&At::new("end", 0).within(SHORT)).map_err(|error| error.cause);
        }
        std::thread::sleep(SHORT * 2);
        Ok(())
    });
    let cause = results[0].clone().expect_err("rank 1 does not arrive");
    let Cause::Deadline { waited, peers } = *cause else { panic!("{cause}") };
    assert_eq!(waited, SHORT);
    assert_eq!((peers.len(), peers[0].rank), (1, 1));
    assert_eq!(peers[0].state, PeerState::Behind { last: String::new() });
}

#[test]
fn a_rank_that_panics_ends_the_wait_of_the_others_at_once() {
    let mut group = threads::group(2);
    let (one, zero) = (group.pop().expect("rank 1"), group.pop().expect("rank 0"));
    let panics = std::thread::spawn(move || {
        let _ranks = one;
        std::panic::resume_unwind(Box::new("as a test wants"));
    });
    let begin = Instant::now();
    let error = zero.barrier(&at(5)).expect_err("rank 1 panicked");
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(
        error.to_string(),
        "rank 0 of 2 on this process: barrier of phase test, step 5: rank 1 on this process reported a fault (code \
         101): it panicked"
    );
    assert!(panics.join().is_err());
}

#[test]
fn a_fault_and_a_leave_are_reported_with_their_reason() {
    let results = threads::run(3, |ranks| {
        if ranks.rank() == 2 {
            ranks.abort(7, "spleen_12.nii.gz cannot be read");
        }
        ranks.barrier(&at(0)).map_err(|error| error.cause.to_string())
    });
    let said = "rank 2 on this process reported a fault (code 7): spleen_12.nii.gz cannot be read";
    assert_eq!(results, vec![Err(said.to_owned()); 3]);

    let left = threads::run(2, |ranks| match ranks.rank() {
        0 => ranks.barrier(&at(0)).map_err(|error| error.cause.to_string()),
        _ => Ok(()),
    });
    assert!(left[0].as_ref().is_err_and(|said| said.contains("it left before the run was finished")), "{left:?}");
}

#[test]
fn operations_that_differ_are_named() {
    let differ = |mine: fn(usize) -> Operation| -> String {
        let said = threads::run(2, |ranks| {
            let own = ranks.start(mine(ranks.rank()), &at(1)).wait();
            own.expect_err("they differ").cause.to_string()
        });
        assert_eq!(said[0], said[1]);
        said[0].clone()
    };
    let kinds = differ(|rank| if rank == 0 { Operation::Barrier } else { Operation::AllGather { bytes: vec![] } });
    assert!(kinds.contains("started another operation here: "), "{kinds}");
    assert!(kinds.contains("barrier of phase test, step 1") || kinds.contains("all-gather of phase test, step 1"));
    let roots = differ(|rank| Operation::Broadcast { bytes: vec![], root: rank });
    assert!(roots.contains("broadcast of phase test, step 1, root "), "{roots}");
    let lengths = differ(|rank| Operation::AllReduce { values: vec![0.0; rank + 1], how: AllReduce::default() });
    assert!(lengths.contains(" values, F32, order Rank"), "{lengths}");
    let sums = threads::run(2, |ranks| {
        let own = vec![1.0; ranks.rank() + 1];
        let said = ranks.sum(&own, &at(2)).expect_err("they differ").to_string();
        ranks.finish(&at(3)).map(|()| said)
    });
    assert!(sums[0].as_ref().is_ok_and(|said| said.contains("a sum of 2 values instead of 1")), "{sums:?}");
}

#[test]
fn a_root_that_does_not_exist_is_refused_before_anything_is_sent() {
    run(2, |ranks| {
        let error = ranks.broadcast(vec![], 2, &at(0)).expect_err("ranks 0 and 1");
        assert_eq!(*error.cause, Cause::NoSuchRank { root: 2 });
        ranks.barrier(&at(1))
    });
}

#[test]
fn nothing_follows_the_end() {
    let only = threads::alone();
    assert_eq!(only.start(Operation::Barrier, &at(0)).wait(), Ok(Received::Nothing));
    only.finish(&at(1)).expect("alone");
    assert_eq!(*only.barrier(&at(2)).expect_err("finished").cause, Cause::Finished);
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
    assert!(phase.seconds >= 0.1 && phase.longest_seconds <= phase.seconds, "{phase:?}");
    for waits in &found {
        assert_eq!(straggler(waits).map(|straggler| straggler.rank), Some(1));
    }
}
