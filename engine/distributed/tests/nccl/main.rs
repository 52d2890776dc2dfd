//! Ranks whose sums are computed on GPUs. `stub.c` replaces NCCL, RCCL and their drivers: it checks
//! its arguments and computes what the libraries would. The ranks are threads of a process that
//! each test starts, or processes of `mpirun`. No test has run on a GPU.

// Libraries that a C compiler builds.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use hearth_distributed::{NcclError, nccl, threads};

#[path = "../../../../tests/clients.rs"]
mod clients;

mod ranks;

use ranks::{SHORT, WHAT};

/// Builds the stub for a vendor, with more arguments for the compiler, in a folder that is kept
/// while the tests run.
fn stub(vendor: &str, more: &[&str]) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder"));
    let file = if vendor == "AMD" { "librccl" } else { "libnccl" };
    let library = folder.path().join(format!("{file}{}.so", more.join("").replace(['/', '='], "")));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nccl/stub.c");
    // Under another name first: tests run concurrently, and one may have opened it.
    let built = tempfile::NamedTempFile::new_in(folder.path()).expect("a file").into_temp_path();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", &format!("-D{vendor}")]);
    let output = cc.args(more).arg("-o").arg(&built).arg(source).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(&built, &library).expect("the stub");
    library
}

/// The output of ranks, and the log of the stub.
struct Run {
    said: String,
    code: Option<i32>,
    calls: Vec<String>,
}

impl Run {
    fn count(&self, call: &str) -> usize {
        self.calls.iter().filter(|line| line.split(' ').next() == Some(call)).count()
    }

    /// Each rank destroyed or aborted its communicator once, and released everything. (A call of a
    /// communicator that has ended ends the process.)
    fn is_clean(&self, ended: &str, world: usize) {
        assert_eq!(self.code, Some(0), "{}", self.said);
        assert_eq!(self.count(ended), world, "{}\n{:?}", self.said, self.calls);
        for line in ["memory", "pinned", "streams", "events", "communicators", "contexts"] {
            let line = format!("left {line} 0");
            assert!(self.calls.contains(&line), "{line}: {}\n{:?}", self.said, self.calls);
        }
    }

    /// The line that a rank printed.
    fn line(&self, part: &str) -> &str {
        let line = self.said.lines().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("no {part:?} in:\n{}", self.said))
    }
}

fn run_command(mut command: Command, library: &Path, variables: &[(&str, &str)], what: &str) -> Run {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    command.arg(std::env::current_exe().expect("this test"));
    command.args(["--exact", "ranks::what_ranks_do", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("HEARTH_NCCL", library).env("STUB_LOG", &log).env("TMPDIR", folder.path()).env(WHAT, what);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("RUST_BACKTRACE", "0");
    let output = command.envs(variables.iter().copied()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let calls = fs::read_to_string(&log).unwrap_or_default().lines().map(str::to_owned).collect();
    Run { said, code: output.status.code(), calls }
}

/// Ranks as threads of one process.
fn run_with(library: &Path, variables: &[(&str, &str)], what: &str) -> Run {
    run_command(Command::new("env"), library, variables, what)
}

fn run(vendor: &str, variables: &[(&str, &str)], what: &str) -> Run {
    run_with(&stub(vendor, &[]), variables, what)
}

fn calls_are_right(vendor: &str, shown: &str) {
    // Chunks of 512 and of 341 values, and of the usual size.
    for (world, chunk) in [("1", "2048"), ("2", "2048"), ("3", "2048"), ("4", "4194304")] {
        let variables = [("HEARTH_TEST_WORLD", world), ("HEARTH_TEST_CHUNK", chunk)];
        let done = run(vendor, &variables, if world == "1" { "one" } else { "everything" });
        let count: usize = world.parse().expect("a number");
        done.is_clean("ncclCommDestroy", count);
        assert_eq!((done.count("ncclCommInitRank"), done.count("ncclCommAbort")), (count, 0));
        assert_eq!((done.count("ncclGetUniqueId"), done.count("ncclGroupStart")), (1, done.count("ncclGroupEnd")));
        for rank in 0..count {
            done.line(&format!("rank {rank} has finished"));
            if count > 1 {
                let line = format!("rank {rank} of {world}: card {rank} (0000:0{:x}:00.0), {shown} 2.21.5", 10 + rank);
                done.line(&line);
            }
        }
    }
}

#[test]
fn sums_over_nccl_and_cuda_are_right() {
    calls_are_right("NVIDIA", "NVIDIA");
}

#[test]
fn sums_over_rccl_and_hip_are_right() {
    calls_are_right("AMD", "AMD");
}

#[test]
fn live_processes_of_open_mpi_exchange_over_the_stub() {
    let Some(program) = clients::find_program("mpirun.openmpi", "sums_over_nccl_and_cuda_are_right") else { return };
    let mut command = Command::new(program);
    command.args(["-n", "3"]);
    let done = run_command(command, &stub("NVIDIA", &[]), &[("HEARTH_TEST_CHUNK", "2048")], "processes");
    assert_eq!(done.code, Some(0), "{}", done.said);
    assert_eq!((done.count("ncclCommInitRank"), done.count("ncclCommDestroy")), (3, 3));
    for rank in 0..3 {
        done.line(&format!("rank {rank} has finished"));
    }
}

#[test]
fn work_that_hangs_ends_at_the_deadline_with_an_abort() {
    // The first `ncclAllReduce` belongs to the connection.
    for (vendor, hangs, by_rank) in [
        ("NVIDIA", "ncclAllReduce@1#2", None),
        ("AMD", "ncclAllReduce@1#2", None),
        ("NVIDIA", "ncclAllGather@0#1", Some("1")),
    ] {
        let mut variables = vec![("STUB_HANG", hangs)];
        variables.extend(by_rank.map(|yes| ("HEARTH_TEST_BY_RANK", yes)));
        let done = run(vendor, &variables, "sum");
        done.is_clean("ncclCommAbort", 3);
        let line = done.line("all-reduce of phase gradients, step 17: not finished after 1.5 s; ranks ");
        assert!(line.contains("of 3 on this process: ") && line.ends_with(" have arrived"), "{line}");
        let line = done.line("later: ");
        assert!(line.contains("all-reduce of phase gradients, step 18: an earlier operation failed: rank "), "{line}");
        let line = done.line("barrier: ");
        assert!(line.contains("barrier of phase test, step 19: an earlier operation failed"), "{line}");
    }
    // A GPU that does not stop even then: its memory is not released.
    let done = run("NVIDIA", &[("STUB_HANG", "ncclAllReduce@1#2"), ("STUB_DEAF", "1")], "sum");
    assert_eq!((done.code, done.count("ncclCommAbort")), (Some(0), 3), "{}", done.said);
    assert!(!done.calls.contains(&"left memory 0".to_owned()), "{:?}", done.calls);
    done.line("all-reduce of phase gradients, step 17: not finished after 1.5 s; ranks ");
}

#[test]
fn a_rank_that_is_missing_is_named_and_no_card_waits_for_it() {
    let done = run("NVIDIA", &[], "late");
    let line = done.line("all-reduce of phase gradients, step 17: not finished after 1.5 s; ");
    assert!(line.contains("rank 1 on this process has not arrived; its last operation is "), "{line}");
    // Only the sum of the connection was queued.
    assert_eq!(done.count("ncclAllReduce"), 3);
    done.is_clean("ncclCommAbort", 3);
}

#[test]
fn a_rank_that_fails_or_leaves_ends_the_wait_at_once() {
    for (what, why) in [
        ("fault", "rank 1 on this process reported a fault (code 7): spleen_12.nii.gz cannot be read"),
        ("leave", "rank 1 on this process reported a fault (code 1): it left before the run was finished"),
    ] {
        let done = run("NVIDIA", &[], what);
        done.line(&format!("all-reduce of phase gradients, step 17: {why}"));
        let waited: f64 = done.line("rank 0 waited ").split(' ').nth(3).and_then(|s| s.parse().ok()).expect("seconds");
        assert!(waited < 1.4, "{waited} s");
        done.is_clean("ncclCommAbort", 3);
    }
}

#[test]
fn an_asynchronous_error_is_reported_with_the_words_of_the_library() {
    for (vendor, library) in [("NVIDIA", "NCCL"), ("AMD", "RCCL")] {
        let variables = [("STUB_ASYNC", "ncclAllReduce@2#2"), ("STUB_HANG", "ncclAllReduce#2")];
        let done = run(vendor, &variables, "sum");
        done.line(&format!(
            "rank 2 of 3 on this process: all-reduce of phase gradients, step 17: {library} reports an error of work that \
             was under way, code 6: remote process exited (socket of the stub)"
        ));
        done.is_clean("ncclCommAbort", 3);
    }
    // While the ranks are connected.
    let variables = [("STUB_ASYNC", "ncclAllReduce@2#1"), ("STUB_HANG", "ncclAllReduce#1")];
    let done = run("NVIDIA", &variables, "short");
    let said = "rank 2 on this process cannot be connected over its GPU: ncclAllReduce failed with code 6: remote";
    assert!(done.line("rank 0 after ").contains(said), "{}", done.said);
    done.is_clean("ncclCommAbort", 3);
}

#[test]
fn calls_that_fail_are_named_with_rank_phase_and_step() {
    let driver = "failed with code 2: out of memory";
    let library = "failed with code 2: unhandled system error (socket of the stub)";
    for (vendor, fails, by_rank, said) in [
        ("NVIDIA", "ncclAllReduce@1#2", None, library),
        ("NVIDIA", "ncclSend@1#2", Some("1"), library),
        ("NVIDIA", "ncclRecv@1#1", Some("1"), library),
        ("NVIDIA", "ncclAllGather@1#1", Some("1"), library),
        ("NVIDIA", "cuMemcpyHtoDAsync_v2@1#2", None, driver),
        ("NVIDIA", "cuMemcpyDtoHAsync_v2@1#2", None, driver),
        ("NVIDIA", "cuStreamWaitEvent@1#3", None, driver),
        ("NVIDIA", "cuEventRecord@1#4", None, driver),
        ("AMD", "hipMemcpyAsync@1#3", None, driver),
    ] {
        let mut variables = vec![("STUB_FAIL", fails)];
        variables.extend(by_rank.map(|yes| ("HEARTH_TEST_BY_RANK", yes)));
        let done = run(vendor, &variables, "sum");
        let function = fails.split('@').next().unwrap_or_default();
        done.line(&format!("rank 1 of 3 on this process: all-reduce of phase gradients, step 17: {function} {said}"));
        assert_eq!(done.count("ncclGroupStart"), done.count("ncclGroupEnd"));
        done.is_clean("ncclCommAbort", 3);
    }
    let done = run("NVIDIA", &[("STUB_FAIL", "ncclCommDestroy@1")], "sum");
    done.line(
        "rank 1 not finished: rank 1 of 3 on this process: finish of phase test, step 99: ncclCommDestroy failed with",
    );
}

#[test]
fn ranks_that_cannot_be_connected_say_why_on_all_ranks() {
    let system = "unhandled system error (socket of the stub)";
    for (vendor, fails, said) in [
        (
            "NVIDIA",
            "cuInit",
            "rank 0 on this process cannot be connected over its GPU: cuInit failed with code 100: unknown",
        ),
        ("NVIDIA", "cuDevicePrimaryCtxRetain", "GPU: cuDevicePrimaryCtxRetain failed with code 2: out of memory"),
        ("NVIDIA", "cuDeviceGetPCIBusId", "GPU: cuDeviceGetPCIBusId failed with code 2: out of memory"),
        ("NVIDIA", "cuCtxPushCurrent_v2", "GPU: cuCtxPushCurrent_v2 failed with code 2: out of memory"),
        (
            "NVIDIA",
            "cuMemAlloc_v2@2#3",
            "rank 2 on this process cannot be connected over its GPU: cuMemAlloc_v2 failed with",
        ),
        (
            "NVIDIA",
            "cuMemHostAlloc@1",
            "rank 1 on this process cannot be connected over its GPU: cuMemHostAlloc failed with",
        ),
        (
            "NVIDIA",
            "cuStreamCreate@1#2",
            "rank 1 on this process cannot be connected over its GPU: cuStreamCreate failed with",
        ),
        (
            "NVIDIA",
            "cuEventCreate@1#2",
            "rank 1 on this process cannot be connected over its GPU: cuEventCreate failed with",
        ),
        (
            "AMD",
            "hipInit",
            "rank 0 on this process cannot be connected over its GPU: hipInit failed with code 100: error of the stub",
        ),
        (
            "AMD",
            "hipMalloc@1",
            "rank 1 on this process cannot be connected over its GPU: hipMalloc failed with code 2: out of memory",
        ),
        ("NVIDIA", "ncclGetVersion", "GPU: ncclGetVersion failed with code 2: "),
        (
            "NVIDIA",
            "ncclGetUniqueId",
            "rank 0 on this process cannot be connected over its GPU: ncclGetUniqueId failed with code 2: ",
        ),
    ] {
        let done = run(vendor, &[("STUB_FAIL", fails)], "sum");
        for rank in 0..3 {
            let line = done.line(&format!("rank {rank} after "));
            assert!(line.contains(said), "{fails}: {line}");
        }
        assert_eq!(done.count("ncclCommInitRank"), 0);
        done.is_clean("ncclCommDestroy", 0);
    }
    // One fails while they are connected: the others do not wait for it longer than the deadline.
    let done = run("NVIDIA", &[("STUB_FAIL", "ncclCommInitRank@1")], "short");
    let line = done.line("rank 1 after ");
    assert!(
        line.contains(": rank 1 on this process cannot be connected over its GPU: ncclCommInitRank failed"),
        "{line}"
    );
    let done = run("NVIDIA", &[("STUB_FAIL", "ncclAllReduce@1")], "short");
    done.line(&format!(
        "rank 1 on this process cannot be connected over its GPU: ncclAllReduce failed with code 2: {system}"
    ));
    done.is_clean("ncclCommAbort", 3);
    let done = run("NVIDIA", &[("STUB_HANG", "ncclAllReduce@1#1")], "short");
    done.line("not connected after 1.5 s: the first ncclAllReduce does not return");
    done.is_clean("ncclCommAbort", 3);
    let done = run("NVIDIA", &[("STUB_FAIL", "ncclCommGetAsyncError@1"), ("STUB_HANG", "ncclAllReduce#1")], "short");
    done.line("rank 1 on this process cannot be connected over its GPU: ncclCommGetAsyncError failed with code 2");
    done.is_clean("ncclCommAbort", 3);
    let done = run("AMD", &[("STUB_WRONG", "ncclAllReduce@1")], "sum");
    done.line("rank 1 on this process cannot be connected over its GPU: the first sum over the GPUs was 7, and 6 is");
    done.is_clean("ncclCommAbort", 3);
    // One rank is missing.
    let done = run("NVIDIA", &[], "absent");
    let line = done.line("all-gather of phase cards, step 0: not finished after 1.5 s; ");
    assert!(line.contains("rank 1 on this process has not arrived"), "{line}");
    assert_eq!(done.count("ncclCommInitRank"), 0);
}

#[test]
fn a_call_that_does_not_return_is_noticed() {
    let done = run("NVIDIA", &[("STUB_STUCK", "ncclAllReduce@1#2")], "sum");
    let line =
        done.line("rank 1 of 3 on this process: all-reduce of phase gradients, step 17: the NCCL library does not");
    assert!(line.ends_with(" return from a call after 1.5 s"), "{line}");
    done.line(
        "rank 1 barrier: rank 1 of 3 on this process: barrier of phase test, step 19: an earlier operation failed",
    );
    let done = run("NVIDIA", &[("STUB_STUCK", "ncclCommInitRank@1")], "short");
    for rank in 0..3 {
        let line = done.line(&format!("rank {rank} after "));
        assert!(line.contains("not connected after 1.5 s: ncclCommInitRank does not return"), "{line}");
    }
    let done = run("AMD", &[("STUB_STUCK", "hipStreamCreateWithFlags@1")], "short");
    assert!(done.line("rank 0 after ").contains("rank 1 on this process cannot be"), "{}", done.said);
}

#[test]
fn ranks_that_start_different_sums_are_named() {
    let done = run("NVIDIA", &[], "differ");
    let line =
        done.line("all-reduce of phase gradients, step 17: rank 2 on this process started another operation here: ");
    assert!(line.ends_with("all-reduce of 6 values, F32, order Rank"), "{line}");
    // Nothing was combined wrongly on the GPUs.
    assert_eq!(done.count("ncclSend"), 0);
    done.is_clean("ncclCommAbort", 3);
}

#[test]
fn libraries_cards_and_versions_are_checked_before_ranks_are_connected() {
    let all = |done: &Run, said: &str| {
        for rank in 0..3 {
            let line = done.line(&format!("rank {rank} after "));
            assert!(line.contains(said), "{line}");
        }
        done.is_clean("ncclCommDestroy", 0);
        assert_eq!(done.count("ncclCommInitRank"), 0);
    };
    let old = run("NVIDIA", &[("STUB_VERSION", "2804")], "sum");
    all(&old, "has version 2.8.4, and 2.10 or later is needed");
    let differ = run("NVIDIA", &[("STUB_VERSION", "22105,22105,22003")], "sum");
    all(&differ, "the ranks have different libraries for their GPUs: version: NCCL 2.21.5 on ranks ");
    all(&differ, ", but NCCL 2.20.3 on rank ");
    all(&run("NVIDIA", &[("STUB_CARDS", "0")], "sum"), "libnccl.so sees no GPU; are CUDA_VISIBLE_DEVICES");
    all(&run("AMD", &[("HEARTH_TEST_CARD", "4")], "sum"), "there is no GPU 4; the driver sees 4, numbered from 0");
    let same = "ranks 0 and 2 on this process have the same GPU (0000:0a:00.0): start at most as many ranks";
    all(&run("NVIDIA", &[("STUB_CARDS", "2")], "sum"), same);
    run("NVIDIA", &[("STUB_CARDS", "2")], "shared").is_clean("ncclCommDestroy", 3);
    for (vendor, missing, said) in [
        ("NVIDIA", "ncclRecv", "lacks ncclRecv: it is not a library of NCCL 2.10 or later, or of RCCL"),
        ("NVIDIA", "cuEventQuery", "lacks cuEventQuery: it is not the driver of CUDA 11 or later"),
        ("NVIDIA", "cuCtxPushCurrent_v2", "lacks cuCtxPushCurrent_v2: it is not the driver of CUDA 11 or later"),
        ("AMD", "hipMemcpyAsync", "lacks hipMemcpyAsync: it is not a HIP runtime of ROCm 5 or later"),
    ] {
        let library = stub(vendor, &[&format!("-D{missing}=of_a_later_version")]);
        all(&run_with(&library, &[], "sum"), said);
    }
    // The text of the last error exists since 2.13.
    let library = stub("NVIDIA", &["-DWITHOUT_LAST_ERROR"]);
    let done = run_with(&library, &[("STUB_FAIL", "ncclAllReduce@1#2")], "sum");
    assert!(done.line("ncclAllReduce failed").ends_with("code 2: unhandled system error"), "{}", done.said);
}

#[test]
fn libraries_are_named_by_variables() {
    let named = |library: &str, driver: &str| {
        let mut variables = vec![("HEARTH_GPU_DRIVER", driver)];
        variables.retain(|(_, value)| !value.is_empty());
        run_with(Path::new(library), &variables, "cards").said
    };
    let library = stub("NVIDIA", &[]).to_string_lossy().into_owned();
    assert!(named(&library, "").contains("4 cards"));
    assert!(named(&library, &library).contains("4 cards"));
    let said = named("/nowhere/libnccl.so.2", "");
    assert!(said.contains("no cards: HEARTH_NCCL=/nowhere/libnccl.so.2 cannot be opened: "), "{said}");
    let said = named(&library, "/nowhere/libcuda.so.1");
    assert!(said.contains("no cards: HEARTH_GPU_DRIVER=/nowhere/libcuda.so.1 cannot be opened: "), "{said}");
    let said = named(&library, &stub("AMD", &[]).to_string_lossy());
    assert!(said.contains("lacks cuDeviceGetPCIBusId: it is not the driver of CUDA 11 or later"), "{said}");
    // A library without its driver, which is missing on a machine without GPUs.
    let alone = stub("NVIDIA", &["-DcuInit=of_another_library"]).to_string_lossy().into_owned();
    let said = named(&alone, "");
    assert!(
        said.contains("was found, but not the driver of NVIDIA (libcuda.so.1: ") || said.contains("cards"),
        "{said}"
    );
    let said = named("", "");
    assert!(
        said.contains("no cards: neither NCCL nor RCCL can be used (libnccl.so.2: ") || said.contains("cards"),
        "{said}"
    );
}

#[test]
fn the_door_gives_a_communicator() {
    let error = nccl::join(Arc::new(threads::alone()), Some(usize::MAX), SHORT).map(|_| ());
    // On this machine the library is missing; with a library, there is no such GPU.
    assert!(matches!(error, Err(NcclError::Rank { rank: 0, .. })), "{error:?}");
}
