//! The work of the ranks of a test, in the process that the test starts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hearth_distributed::nccl::{self, CardValues, Join};
use hearth_distributed::{
    AllReduce, At, CommError, Communicator, OnCards, Order, Wire, connect, gather_waits, threads,
};
use libloading::Library;

/// The variable with the task of the ranks.
pub const WHAT: &str = "HEARTH_TEST_CARDS_DO";

/// The deadline of operations that are expected to fail.
pub const SHORT: Duration = Duration::from_millis(1500);

fn at(step: u64) -> At {
    At::new("test", step).within(Duration::from_secs(60))
}

fn short() -> At {
    At::new("gradients", 17).within(SHORT)
}

/// One process of those that the tests below start.
#[test]
#[ignore = "what the tests below start"]
fn what_ranks_do() {
    // Without its parent there is nothing to do.
    let Ok(what) = std::env::var(WHAT) else { return };
    if what == "cards" {
        match nccl::cards() {
            Ok(count) => println!("{count} cards"),
            Err(error) => println!("no cards: {error}"),
        }
        return;
    }
    if what == "processes" {
        let base: Arc<dyn Communicator> = Arc::from(connect(Duration::from_secs(30)).expect("an MPI"));
        return rank(&what, base);
    }
    let world = std::env::var("HEARTH_TEST_WORLD").map_or(3, |world| world.parse().expect("a number"));
    threads::run(world, |ranks| rank(&what, Arc::new(ranks)));
}

/// The work of one rank.
fn rank(what: &str, base: Arc<dyn Communicator>) {
    let rank = base.rank();
    if what == "absent" && rank == 1 {
        return std::thread::sleep(SHORT * 3);
    }
    let card = std::env::var("HEARTH_TEST_CARD").ok().map(|card| card.parse().expect("a number"));
    let deadline = if what == "short" || what == "absent" { SHORT } else { Duration::from_secs(30) };
    let chunk_bytes = std::env::var("HEARTH_TEST_CHUNK").map_or(4 << 20, |bytes| bytes.parse().expect("a number"));
    let join = Join { card, deadline, may_share: what == "shared", chunk_bytes };
    let begin = Instant::now();
    let ranks = match join.join(base) {
        Ok(ranks) => ranks,
        Err(error) => {
            println!("rank {rank} after {:.1} s: {error}", begin.elapsed().as_secs_f64());
            return;
        }
    };
    match what {
        "everything" | "processes" => everything(&ranks),
        "differ" => {
            let own = vec![1.0; 5 + usize::from(rank == 2)];
            report(ranks.all_reduce(own, AllReduce::default(), &short()).map(|_| ()));
            return;
        }
        "fault" if rank == 1 => {
            // The others see it at once, not at the deadline.
            ranks.abort(7, "spleen_12.nii.gz cannot be read");
            return;
        }
        "leave" if rank == 1 => return,
        "late" if rank == 1 => return std::thread::sleep(SHORT * 3),
        "shared" => {}
        _ => {
            let how = AllReduce { wire: Wire::F32, order: order() };
            let begin = Instant::now();
            let pending = ranks.start_all_reduce(vec![1.0; 1000], how, &short());
            let later = ranks.start_all_reduce(vec![1.0; 10], how, &At::new("gradients", 18).within(SHORT * 2));
            let ended = pending.wait().map(|_| ());
            let seconds = begin.elapsed().as_secs_f64();
            let failed = ended.is_err();
            report(ended);
            println!("rank {rank} waited {seconds:.1} s");
            if failed {
                let error = later.wait().expect_err("an earlier one failed");
                println!("rank {rank} later: {error}");
                let error = ranks.barrier(&at(19)).expect_err("an earlier one failed");
                println!("rank {rank} barrier: {error}");
                return;
            }
            // Another rank may have failed after its part of the first was sent.
            if let Err(error) = later.wait() {
                println!("rank {rank} later: {error}");
                return;
            }
        }
    }
    if let Err(error) = ranks.finish(&at(99)) {
        println!("rank {rank} not finished: {error}");
        return;
    }
    let error = ranks.all_reduce(vec![1.0], AllReduce::default(), &short()).expect_err("it has finished");
    assert!(error.to_string().ends_with("step 17: the communicator has ended"), "{error}");
    println!("rank {rank} has finished");
}

fn order() -> Order {
    if std::env::var_os("HEARTH_TEST_BY_RANK").is_some() { Order::Rank } else { Order::Any }
}

fn report(ended: Result<(), CommError>) {
    match ended {
        Ok(()) => println!("no error"),
        Err(error) => println!("{error}"),
    }
}

/// Every operation, with results that are known.
fn everything(ranks: &OnCards) {
    let (rank, world) = (ranks.rank(), ranks.world());
    let triangle = (world * (world + 1) / 2) as f32;
    for wire in [Wire::F32, Wire::Bf16] {
        for order in [Order::Rank, Order::Any] {
            // Less than a slice each, chunks that are not full, and many chunks.
            for len in [0, 1, 2, 7, 1001, 20_000] {
                let own: Vec<f32> = (0..len).map(|i| ((rank + 1) * (i % 8)) as f32).collect();
                let sum = ranks.all_reduce(own, AllReduce { wire, order }, &at(1)).expect("a sum");
                let right = (0..len).map(|i| triangle * (i % 8) as f32);
                assert!(sum.len() == len && sum.into_iter().eq(right), "{wire:?} {order:?} {len}");
            }
        }
    }
    // By rank, the bits are those of threads and MPI.
    let part = |rank: usize| (0..5000).map(move |i| ((i * 7919 + rank * 104_729) % 1000) as f32 * 1.1e-3 - 0.4);
    for wire in [Wire::F32, Wire::Bf16] {
        let how = AllReduce { wire, order: Order::Rank };
        let sums = threads::run(world, |other| {
            let sum = other.all_reduce(part(other.rank()).collect(), how, &at(0)).expect("a sum");
            other.finish(&at(0)).map(|()| sum).expect("all arrive")
        });
        assert_eq!(ranks.all_reduce(part(rank).collect(), how, &at(2)).expect("a sum"), sums[0], "{wire:?}");
    }
    // Many are started before one is waited for, in both orders; one is not waited for at all.
    let start = |step: u64| {
        let order = if step.is_multiple_of(3) { Order::Rank } else { Order::Any };
        ranks.start_all_reduce(vec![step as f32; 900], AllReduce { wire: Wire::F32, order }, &at(step))
    };
    let mut pending: Vec<_> = (0..12).map(start).collect();
    drop(pending.remove(7));
    for (sum, step) in pending.into_iter().zip((0..12).filter(|step| *step != 7)) {
        assert_eq!(sum.wait().expect("a sum"), vec![(world as u64 * step) as f32; 900]);
    }
    for root in 0..world {
        let sent = ranks.start_broadcast(vec![rank as f32; 3000], root, &at(3)).wait();
        assert_eq!(sent.expect("values"), vec![root as f32; 3000]);
        // Over the base communicator.
        assert_eq!(ranks.broadcast(vec![rank as u8], root, &at(4)).expect("bytes"), [root as u8]);
    }
    let error = ranks.start_broadcast(vec![], world, &at(5)).wait().expect_err("no such rank");
    assert!(error.to_string().contains("broadcast of phase test, step 5: there is no rank"), "{error}");
    assert_eq!(ranks.sum(&[1.5], &at(6)).expect("a sum"), [1.5 * world as f64]);
    on_card(ranks, triangle);
    let waits = gather_waits(ranks, &at(7)).expect("waits");
    let phase = &waits[rank].phases["test"];
    assert!(waits.len() == world && phase.operations > 40 && phase.bytes > 300_000, "{phase:?}");
    println!("rank {rank} of {world}: card {} ({}), {} {}", ranks.card(), ranks.bus(), ranks.vendor(), ranks.version());
}

/// The stub's record of values on a GPU: memory, pinned memory and a stream.
#[repr(C)]
struct OfStub {
    memory: *mut std::ffi::c_void,
    pinned: *mut std::ffi::c_void,
    stream: *mut std::ffi::c_void,
}

type Values = unsafe extern "C" fn(i32, *const f32, usize, *mut OfStub);
type Take = unsafe extern "C" fn(i32, *mut f32, usize, *mut OfStub);

/// Values that are already on the GPU: their copy is queued, but not done.
fn on_card(ranks: &OnCards, triangle: f32) {
    let path = std::env::var_os("HEARTH_NCCL").expect("the stub");
    // SAFETY: the stub was built for this test and is open already.
    let stub = unsafe { Library::new(path) }.expect("the stub");
    // SAFETY: the stub defines both with these arguments.
    let (values, take) = unsafe { (stub.get::<Values>("stub_values"), stub.get::<Take>("stub_take")) };
    let (values, take) = (values.expect("its function"), take.expect("its function"));
    let (card, rank) = (ranks.card() as i32, ranks.rank());
    let null = std::ptr::null_mut();
    for broadcast in [false, true] {
        let own: Vec<f32> = (0..777).map(|i| ((rank + 1) * (i % 5)) as f32).collect();
        let mut there = OfStub { memory: null, pinned: null, stream: null };
        // SAFETY: there is this number of values, and `there` is a valid place.
        unsafe { values(card, own.as_ptr(), own.len(), &raw mut there) };
        let all = CardValues { address: there.memory as u64, count: own.len(), wire: Wire::F32 };
        // SAFETY: the memory belongs to this GPU, which writes it on this stream; nothing else uses
        // it before the wait ends.
        let pending = unsafe {
            if broadcast {
                ranks.start_broadcast_on_card(all, 1, there.stream, &at(8))
            } else {
                ranks.start_all_reduce_on_card(all, there.stream, &at(8))
            }
        };
        pending.wait().expect("a sum");
        let mut result = vec![0.0; own.len()];
        // SAFETY: as above.
        unsafe { take(card, result.as_mut_ptr(), result.len(), &raw mut there) };
        let factor = if broadcast { 2.0 } else { triangle };
        assert!(result.into_iter().eq((0..777).map(|i| factor * (i % 5) as f32)), "broadcast: {broadcast}");
    }
}
