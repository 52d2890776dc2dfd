//! Ranks over MPI. `live_*` start ranks by the `mpirun` of a real MPI; their counterparts run one
//! rank over `mpi_stub.c`, a library for each of the three interfaces that checks its arguments.

// Signals, and libraries that a C compiler builds.
#![cfg(unix)]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hearth_distributed::{
    AllReduce, At, Communicator, Facts, MpiCommunicator, MpiError, Order, Placement, Wire, agree, connect, gather_waits,
};

#[path = "../../../tests/clients.rs"]
mod clients;

/// The variable with the task of the ranks of a test.
const WHAT: &str = "HEARTH_TEST_RANKS_DO";

/// The deadline of operations that are expected to fail.
const SHORT: Duration = Duration::from_millis(1500);

/// The time limit of a run of ranks: the machine may be busy.
const LIMIT: Duration = Duration::from_secs(90);

fn at(step: u64) -> At {
    At::new("test", step).within(Duration::from_secs(60))
}

/// One process of those that the tests below start.
#[test]
#[ignore = "what the tests below start"]
fn what_a_rank_does() {
    // Without its parent there is nothing to do.
    let Ok(what) = std::env::var(WHAT) else { return };
    if what == "connect" {
        let ranks = connect(Duration::from_secs(30)).expect("nothing is needed");
        println!("connected: rank {} of {}", ranks.rank(), ranks.world());
        return;
    }
    let placement = Placement::from_environment().expect("sound variables");
    let mut patience = Duration::from_secs(30);
    if what == "absent" {
        if placement.is_some_and(|placement| placement.rank == 1) {
            std::thread::sleep(LIMIT);
        }
        patience = Duration::from_secs(2);
    }
    let ranks = match MpiCommunicator::open(placement.as_ref(), patience) {
        Ok(ranks) => ranks,
        Err(error) => {
            eprintln!("not connected: {error}");
            std::process::exit(4);
        }
    };
    let again = MpiCommunicator::open(placement.as_ref(), patience).map(|_| ());
    assert!(matches!(again, Err(MpiError::AlreadyOpen)), "{again:?}");
    let rank = ranks.rank();
    match what.as_str() {
        "everything" => everything(&ranks),
        "speed" => speed(&ranks),
        "mirror" => {
            for (wire, order) in [(Wire::F32, Order::Any), (Wire::F32, Order::Rank), (Wire::Bf16, Order::Any)] {
                let own = vec![1.0, 2.5, 1.0, 2.5];
                let sum = ranks.all_reduce(own, AllReduce { wire, order }, &at(0)).expect("a sum");
                assert_eq!(sum, [2.0, 5.0, 2.0, 5.0], "{wire:?} {order:?}");
            }
            assert_eq!(ranks.sum(&[1.5], &at(1)).expect("a sum"), [3.0]);
            assert_eq!(ranks.gather(vec![4, 5], 0, &at(2)).expect("parts"), Some(vec![vec![4, 5]; 2]));
        }
        "agree" => {
            let recipe = if rank == ranks.world() - 1 { "cd" } else { "ab" };
            let facts = Facts::from([("recipe".to_owned(), recipe.to_owned())]);
            println!("rank {rank}: {:?}", agree(&ranks, &facts, &at(0)).map_err(|error| error.to_string()));
        }
        "leave" if rank == 1 => {
            drop(ranks);
            // The launcher ends the others when this process ends.
            std::thread::sleep(Duration::from_secs(3));
            return;
        }
        _ => {
            if let Err(error) = ranks.barrier(&at(1)) {
                eprintln!("{error}");
                ranks.abort(3, &error.to_string());
            }
            if rank == 1 {
                match what.as_str() {
                    "stop" => signal("STOP"),

                    "kill" => signal("KILL"),
                    "late" => std::thread::sleep(SHORT * 4),
                    "panic" => panic!("as a test wants"),
                    "fault" => ranks.abort(7, "spleen_12.nii.gz cannot be read"),
                    _ => {}
                }
            }
            let limited = At::new("gradients", 17).within(SHORT);
            let begin = Instant::now();
            let ended = match std::env::var("HEARTH_TEST_OPERATION").as_deref() {
                Ok("broadcast") => ranks.broadcast(vec![1], 0, &limited).map(|_| ()),
                Ok("gather") => ranks.gather(vec![1], 0, &limited).map(|_| ()),
                Ok("all-gather") => ranks.all_gather(vec![1], &limited).map(|_| ()),
                _ => ranks.all_reduce(vec![1.0; 1000], AllReduce::default(), &limited).map(|_| ()),
            };
            if let Err(error) = ended {
                // Printed at once: the ranks share the launcher's output.
                let line = format!("after {:.1} s: {error}\n", begin.elapsed().as_secs_f64());
                eprint!("{line}");
                ranks.abort(3, &error.to_string());
            }
        }
    }
    let patience = if std::env::var_os("STUB_NEVER_ENDS").is_some() { 1 } else { 60 };
    ranks.finish(&at(99).within(Duration::from_secs(patience))).expect("all arrive");
    println!("rank {rank} has finished");
}

/// Sends a signal to this process, and sleeps until it takes effect.
fn signal(name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(std::process::id().to_string()).status();
    assert!(sent.expect("kill").success());
    std::thread::sleep(LIMIT);
}

/// Every operation, with results that are known.
fn everything(ranks: &MpiCommunicator) {
    let (rank, world) = (ranks.rank(), ranks.world());
    assert_eq!((ranks.local_rank(), ranks.local_world()), (rank, world), "one host");
    let triangle = (world * (world + 1) / 2) as f32;
    for wire in [Wire::F32, Wire::Bf16] {
        for order in [Order::Rank, Order::Any] {
            // Lengths that do not divide by the number of ranks, and fewer values than ranks.
            for len in [0, 1, 3, 1001, 300_000] {
                let own: Vec<f32> = (0..len).map(|i| ((rank + 1) * (i % 8)) as f32).collect();
                let sum = ranks.all_reduce(own, AllReduce { wire, order }, &at(1)).expect("a sum");
                let right = (0..len).map(|i| triangle * (i % 8) as f32);
                assert!(sum.len() == len && sum.into_iter().eq(right), "{wire:?} {order:?} {len}");
            }
        }
    }
    // In f64, by rank: 1e8 - 1e8 + 1, where f32 would lose the 1.
    let own = [1e8, 1.0, -1e8, 0.0][rank % 4];
    let sum = ranks.all_reduce(vec![own], AllReduce::default(), &at(2)).expect("a sum");
    assert!(world != 4 || sum == [1.0]);
    // Many are started before one is waited for, and one is not waited for at all.
    let start = |step: u64| {
        let order = if step.is_multiple_of(2) { Order::Any } else { Order::Rank };
        ranks.start_all_reduce(vec![step as f32; 5000], AllReduce { wire: Wire::F32, order }, &at(step))
    };
    let mut pending: Vec<_> = (0..20).map(start).collect();
    drop(pending.remove(7));
    for (sum, step) in pending.into_iter().zip((0..20).filter(|step| *step != 7)) {
        assert_eq!(sum.wait().expect("a sum"), vec![(world * step) as f32; 5000]);
    }
    let sums = ranks.sum(&[0.1, rank as f64], &at(3)).expect("sums");
    assert_eq!(sums, [(0..world).fold(0.0, |sum, _| sum + 0.1), (world * (world - 1) / 2) as f64]);
    for root in 0..world {
        let sent: Vec<u8> = if rank == root { (0..200_000).map(|i| (i % 251) as u8).collect() } else { vec![] };
        let received = ranks.broadcast(sent, root, &at(4)).expect("bytes");
        assert!(received.len() == 200_000 && received[250_usize..252] == [250, 0]);
        assert!(ranks.broadcast(vec![], root, &at(4)).expect("no bytes").is_empty());
        assert_eq!(ranks.broadcast_f32(&[rank as f32], root, &at(5)).expect("a value"), [root as f32]);
        let parts: Vec<Vec<u8>> = (0..world).map(|rank| vec![rank as u8; rank * 1000]).collect();
        let gathered = ranks.gather(vec![rank as u8; rank * 1000], root, &at(6)).expect("parts");
        assert_eq!(gathered, (rank == root).then(|| parts.clone()));
        assert_eq!(ranks.all_gather(vec![rank as u8; rank * 1000], &at(7)).expect("parts"), parts);
    }
    assert_eq!(ranks.all_gather(vec![], &at(7)).expect("no parts"), vec![Vec::<u8>::new(); world]);
    assert!(ranks.broadcast(vec![], world, &at(8)).expect_err("no such rank").to_string().contains("there is no rank"));
    let facts = Facts::from([("version".to_owned(), "1".to_owned())]);
    agree(ranks, &facts, &at(9)).expect("the same version");
    let waits = gather_waits(ranks, &at(10)).expect("waits");
    assert!(waits.len() == world && waits.iter().all(|waits| waits.phases["test"].operations > 40));
    ranks.barrier(&at(11)).expect("all arrive");
    println!("rank {rank} of {world} over {:?}, {}: all right", ranks.interface(), ranks.library());
}

/// The time of an all-reduce of 5 million values, for each type and order.
fn speed(ranks: &MpiCommunicator) {
    for (wire, order) in [(Wire::F32, Order::Any), (Wire::F32, Order::Rank), (Wire::Bf16, Order::Rank)] {
        let how = AllReduce { wire, order };
        let mut times: Vec<f64> = (0..12)
            .map(|step| {
                let own = vec![1.0; 5_000_000];
                ranks.barrier(&at(step)).expect("all arrive");
                let begin = Instant::now();
                ranks.all_reduce(own, how, &at(step)).unwrap_or_else(|error| panic!("{error}"));
                begin.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        if ranks.rank() == 0 {
            println!("5 million values, {wire:?}, {order:?}: median {:.1} ms, least {:.1} ms", times[6], times[0]);
        }
    }
    // The cost of communication for the thread that computes, and the part that is hidden.
    let mut rows: Vec<[f64; 3]> = (0..9)
        .map(|step| {
            ranks.barrier(&at(step)).expect("all arrive");
            let begin = Instant::now();
            work();
            let alone = begin.elapsed();
            ranks.barrier(&at(step)).expect("all arrive");
            let begin = Instant::now();
            let start = |_| {
                ranks.start_all_reduce(
                    vec![1.0; 1_250_000],
                    AllReduce { wire: Wire::F32, order: Order::Any },
                    &at(step),
                )
            };
            let pending: Vec<_> = (0..4).map(start).collect();
            work();
            let beside = begin.elapsed();
            for sum in pending {
                sum.wait().expect("a sum");
            }
            [alone, beside, begin.elapsed()].map(|time| time.as_secs_f64() * 1e3)
        })
        .collect();
    rows.sort_by(|a, b| a[2].total_cmp(&b[2]));
    let [alone, beside, all] = rows[rows.len() / 2];
    println!(
        "rank {}: work {alone:.0} ms; beside 4 buckets of 5 MB {beside:.0} ms, until they are there {all:.0} ms",
        ranks.rank()
    );
}

/// About 0.2 s of arithmetic.
fn work() {
    let mut sum = 0_u64;
    for i in 0..100_000_000_u64 {
        sum = std::hint::black_box(sum ^ i);
    }
}

/// The output of a run of ranks, and its exit code.
struct Run {
    said: String,
    code: Option<i32>,
    seconds: f64,
}

/// Runs a command that starts `what_a_rank_does`, for at most [`LIMIT`].
fn ranks_of(mut command: Command, what: &str) -> Run {
    let this = std::env::current_exe().expect("this test");
    command.arg(this).args(["--exact", "what_a_rank_does", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(WHAT, what).env("RUST_BACKTRACE", "0");
    // Without these, Open MPI starts nothing as root, and no more ranks than cores.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    fn read(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).expect("a pipe");
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
    let (out, err) = (read(child.stdout.take().expect("a pipe")), read(child.stderr.take().expect("a pipe")));
    let code = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status.code();
        }
        if begin.elapsed() > LIMIT {
            child.kill().expect("a child");
            break child.wait().expect("a child").code();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = out.join().expect("its output") + &err.join().expect("its errors");
    Run { said, code, seconds: begin.elapsed().as_secs_f64() }
}

/// Runs `count` ranks by an `mpirun`.
fn mpirun(program: &Path, count: usize, what: &str) -> Run {
    let mut command = Command::new(program);
    command.args(["-n", &count.to_string()]);
    ranks_of(command, what)
}

/// Checks real ranks, with any MPI.
fn live(program: &Path, interface: &str) {
    // Ranks of two concurrent tests would wait for the CPU, not for each other.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for count in [2, 4] {
        let Run { said, code, .. } = mpirun(program, count, "everything");
        assert_eq!(code, Some(0), "{said}");
        for rank in 0..count {
            assert!(said.contains(&format!("rank {rank} of {count} over {interface}, ")), "{said}");
            assert!(said.contains(&format!("rank {rank} has finished")), "{said}");
        }
    }
    let Run { said, .. } = mpirun(program, 3, "agree");
    assert!(said.contains("recipe: ab on ranks 0, 1, but cd on rank 2 ("), "{said}");

    // A rank that has stopped, and one that is busy elsewhere. All end soon after the deadline.
    for (what, expected) in [
        ("stop", "rank 1 on HOST does not respond"),
        ("late", "rank 1 on HOST has not arrived; its last operation is barrier of phase test, step 1"),
    ] {
        let Run { said, code, seconds } = mpirun(program, 3, what);
        assert!(code.is_some_and(|code| code != 0) && seconds < 30.0, "{what}: {code:?} after {seconds} s: {said}");
        let line = said
            .lines()
            .find(|line| line.contains(": all-reduce of phase gradients, step 17: not finished after 1.5 s; "));
        let line = line.unwrap_or_else(|| panic!("{what}: {said}"));
        let host = line.split(" on ").nth(1).and_then(|rest| rest.split(':').next()).expect("a host");
        assert!(line.contains(&expected.replace("HOST", host)), "{what}: {line}");
        let after = line.split("after ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|s| s.parse().ok());
        assert!(after.is_some_and(|seconds: f64| (1.4..10.0).contains(&seconds)), "{line}");
    }
    // A rank that is killed: the launcher or the others notice.
    let Run { said, code, seconds } = mpirun(program, 3, "kill");
    assert!(code.is_some_and(|code| code != 0) && seconds < 30.0, "{code:?} after {seconds} s: {said}");
    assert!(said.to_lowercase().contains("signal 9") || said.contains("rank 1 on"), "{said}");
    // A rank that reports why it ends, and one that leaves.
    let Run { said, code, .. } = mpirun(program, 3, "fault");
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {said}");
    assert!(said.contains("reported a fault (code 7): spleen_12.nii.gz cannot be read"), "{said}");
    let Run { said, code, .. } = mpirun(program, 3, "panic");
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {said}");
    assert!(said.contains("rank 1 on") && said.contains("reported a fault (code 101): it panicked"), "{said}");
    // A rank that does not start.
    let Run { said, code, seconds } = mpirun(program, 2, "absent");
    assert!(code.is_some_and(|code| code != 0) && seconds < 30.0, "{code:?} after {seconds} s: {said}");
    assert!(said.contains("MPI cannot be started: rank ") && said.contains("has waited 2 s for the other"), "{said}");
    let Run { said, code, .. } = mpirun(program, 3, "leave");
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {said}");
    assert!(said.contains("rank 1 on") && said.contains("it left before the run was finished"), "{said}");
}

#[test]
fn live_ranks_of_open_mpi() {
    let Some(program) = clients::find_program("mpirun.openmpi", "calls_of_open_mpi_are_right") else { return };
    live(&program, "OpenMpi");
}

#[test]
fn live_ranks_of_mpich() {
    let Some(program) = clients::find_program("mpirun.mpich", "calls_of_mpich_are_right") else { return };
    live(&program, "Mpich");
}

#[test]
#[ignore = "measures"]
fn live_speed_of_open_mpi_and_mpich() {
    let Some(open_mpi) = clients::find_program("mpirun.openmpi", "calls_of_open_mpi_are_right") else { return };
    println!("Open MPI, 2 ranks:\n{}", mpirun(&open_mpi, 2, "speed").said);
    let Some(mpich) = clients::find_program("mpirun.mpich", "calls_of_mpich_are_right") else { return };
    println!("MPICH, 2 ranks:\n{}", mpirun(&mpich, 2, "speed").said);
}

/// Builds the stub for an interface, in a folder that is kept while the tests run.
fn stub(interface: &str) -> PathBuf {
    stub_with(interface, &[])
}

/// The same with more arguments for the compiler.
fn stub_with(interface: &str, more: &[&str]) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder"));
    let interface_name = if interface == "STANDARD" { "mpi_abi" } else { interface };
    let name = format!("lib{interface_name}{}.so", more.len());
    let library = folder.path().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi_stub.c");
    // Under another name first: tests run concurrently, and one may have opened it.
    let built = tempfile::NamedTempFile::new_in(folder.path()).expect("a file").into_temp_path();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", &format!("-D{interface}")]);
    let output = cc.args(more).arg("-o").arg(&built).arg(source).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(&built, &library).expect("the stub");
    library
}

/// Runs a process that finds the stub, with variables for it.
fn stubbed(interface: &str, variables: &[(&str, &str)], what: &str) -> Run {
    let mut command = Command::new("env");
    command.env("HEARTH_MPI", stub(interface)).envs(variables.iter().copied());
    ranks_of(command, what)
}

/// Checks the same as the live tests, for an interface.
fn calls_are_right(interface: &str, name: &str) {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let path = log.path().to_str().expect("Unicode");
    let Run { said, code, .. } = stubbed(interface, &[("STUB_LOG", path)], "everything");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains(&format!("rank 0 of 1 over {name}, ")) && said.contains("(Stub of MPI v1): all right"),
        "{said}"
    );
    let calls = fs::read_to_string(path).expect("the calls");
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!((calls[0], calls[calls.len() - 1]), ("MPI_Init_thread", "MPI_Finalize"));
    // The hosts; then five sums by rank and the five of the library's order, on lanes in turn.
    let expected =
        ["MPI_Iallgatherv 0", "MPI_Iallgatherv 0", "MPI_Ialltoallv 0", "MPI_Iallgatherv 0", "MPI_Ialltoallv 1"];
    assert_eq!(calls[1..6], expected);
    for call in ["MPI_Iallreduce", "MPI_Ibcast", "MPI_Igatherv", "MPI_Ibarrier"] {
        assert!((0..4).any(|lane| calls.contains(&format!("{call} {lane}").as_str())), "{call}");
    }

    // A library that does not return from its last call does no harm.
    let Run { said, code, .. } = stubbed(interface, &[("STUB_NEVER_ENDS", "1")], "everything");
    assert!(code == Some(0) && said.contains("rank 0 has finished"), "{said}");

    // Rank 1 is silent: its name is in the message, and the run is aborted.
    let stalls = [("STUB_SIZE", "2"), ("STUB_STALL", "MPI_Ialltoallv"), ("STUB_LOG", path)];
    let Run { said, code, .. } = stubbed(interface, &stalls, "stop");
    assert_eq!(code, Some(3), "{said}");
    let expected = "rank 0 of 2 on stub-host: all-reduce of phase gradients, step 17: not finished after 1.5 s; rank 1 \
                    on stub-host does not respond";
    assert!(said.contains(expected), "{said}");
    assert!(fs::read_to_string(path).expect("the calls").ends_with("MPI_Isend 4\nMPI_Isend 4\nMPI_Abort\n"));

    for (call, operation) in [("MPI_Ibcast", "broadcast"), ("MPI_Igatherv", "gather")] {
        let stalls = [("STUB_SIZE", "2"), ("STUB_STALL", call), ("HEARTH_TEST_OPERATION", operation)];
        let Run { said, code, .. } = stubbed(interface, &stalls, "stop");
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains(&format!("{operation} of phase gradients, step 17: not finished after 1.5 s; ")),
            "{said}"
        );
    }

    // Rank 1 has reported a fault.
    let fault = r#"{"Fault":{"from":1,"code":7,"why":"spleen_12.nii.gz cannot be read"}}"#;
    let variables = [("STUB_SIZE", "2"), ("STUB_STALL", "MPI_Ibarrier"), ("STUB_MESSAGE", fault)];
    let Run { said, .. } = stubbed(interface, &variables, "late");
    let expected =
        "barrier of phase test, step 1: rank 1 on stub-host reported a fault (code 7): spleen_12.nii.gz cannot be read";
    assert!(said.contains(expected) || said.contains(&expected.replace("barrier", "all-reduce")), "{said}");
}

#[test]
fn calls_of_open_mpi_are_right() {
    calls_are_right("OPEN_MPI", "OpenMpi");
}

#[test]
fn calls_of_mpich_are_right() {
    calls_are_right("MPICH", "Mpich");
}

#[test]
fn calls_of_the_standard_are_right() {
    calls_are_right("STANDARD", "Standard");
}

/// The other rank of the stub sends what this rank sends.
#[test]
fn what_is_received_of_two_ranks_is_put_together() {
    for interface in ["OPEN_MPI", "MPICH", "STANDARD"] {
        let Run { said, code, .. } = stubbed(interface, &[("STUB_SIZE", "2")], "mirror");
        assert_eq!(code, Some(0), "{said}");
    }
}

#[test]
fn a_call_that_fails_is_named_with_the_words_of_the_library() {
    let Run { said, code, .. } = stubbed("MPICH", &[("STUB_FAIL", "MPI_Iallreduce")], "speed");
    assert_ne!(code, Some(0));
    assert!(said.contains("MPI_Iallreduce failed with code 15: error 15 of the stub"), "{said}");
}

#[test]
fn a_library_that_is_missing_or_of_another_launcher_is_said_in_one_line() {
    let started = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")];
    let one_line = |run: Run| {
        assert_eq!(run.code, Some(4), "{}", run.said);
        let line = run.said.lines().find_map(|line| line.split_once("not connected: "));
        line.unwrap_or_else(|| panic!("{}", run.said)).1.to_owned()
    };
    let other = one_line(stubbed("OPEN_MPI", &started, "everything"));
    assert!(other.contains("mpirun of Open MPI started 4 ranks, but "), "{other}");
    assert!(other.contains("(Stub of MPI v1) connects 1: it belongs to another launcher; name the library"), "{other}");

    let named = |name: &str| {
        let mut command = Command::new("env");
        command.env("HEARTH_MPI", name).envs(started);
        one_line(ranks_of(command, "everything"))
    };
    let old = stub_with("OPEN_MPI", &["-DMPI_Igatherv=of_a_later_version"]);
    let said = named(&old.to_string_lossy());
    assert!(said.ends_with("lacks MPI_Igatherv: it is not a library of MPI 3 or later"), "{said}");
    assert!(named("/nowhere/libmpi.so.40").contains("HEARTH_MPI=/nowhere/libmpi.so.40 cannot be opened: "));
    #[cfg(target_os = "linux")]
    {
        let said = named("libc.so.6");
        assert!(said.contains("libc.so.6 lacks MPI_Init_thread: it is not a library of MPI 3 or later"), "{said}");
    }
}

#[test]
fn a_process_that_no_launcher_started_needs_no_library() {
    let mut command = Command::new("env");
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    let Run { said, code, .. } = ranks_of(command, "connect");
    assert!(code == Some(0) && said.contains("connected: rank 0 of 1"), "{said}");
}
