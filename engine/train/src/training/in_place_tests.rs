//! Tests gradients that stay on a GPU, with a stub of NCCL and its driver that checks the calls;
//! host memory replaces that of GPUs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use burn::tensor::{Device, Tensor};
use hearth_distributed::nccl::Join;
use hearth_distributed::{AllReduce, Order, Wire, threads};
use hearth_kernels::InPlace;
use hearth_nn::networks::{Network, UNet, UNetConfig};
use hearth_nn::optim::Gradients;

use crate::ranks::Ranks;
use crate::training::bucket_sum::OnDevice;
use crate::training::reducer::{Reducer, Watching};

const WORLD: usize = 3;
/// The variable that selects the ranks' task.
const WHAT: &str = "HEARTH_TEST_IN_PLACE";

/// Runs a task with the stub; returns the ranks' output and the functions that they called.
fn run(what: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (library, log) = (folder.path().join("libnccl.so"), folder.path().join("log"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../distributed/tests/nccl/stub.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-pthread", "-DNVIDIA", "-o"]).arg(&library).arg(source);
    assert!(cc.status().expect("a C compiler").success());
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    child.args(["--exact", "training::in_place_tests::what_ranks_do", "--ignored", "--nocapture", "--test-threads=1"]);
    child.env("HEARTH_NCCL", &library).env("STUB_LOG", &log).env("STUB_HOST", "1").env("TMPDIR", folder.path());
    let output = child.env(WHAT, what).envs(variables.iter().copied()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let calls = std::fs::read_to_string(&log).expect("a log");
    (said, calls.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect())
}

#[test]
#[ignore = "what the tests below start"]
fn what_ranks_do() {
    let Ok(what) = std::env::var(WHAT) else { return };
    threads::run(WORLD, |base| {
        let cards = Join { deadline: Duration::from_secs(30), ..Join::default() }.join(Arc::new(base)).expect("cards");
        let mut ranks = Ranks::new(Arc::new(cards));
        (ranks.deadline, ranks.bucket_bytes) = (Duration::from_secs(30), 2000);
        let wire = if what == "bf16" { Wire::Bf16 } else { Wire::F32 };
        ranks.how = AllReduce { wire, order: Order::Any };
        let stays = ranks.stay_at(OnDevice { device: Device::flex(), place: InPlace::on_host }).expect("all ranks");
        match stays {
            Ok(()) => steps(&ranks),
            Err(why) => println!("rank {} does not: {why}", ranks.rank()),
        }
        ranks.communicator().finish(&ranks.at("the end", 0)).expect("all arrive");
    });
}

fn near(found: &Gradients, expected: &Gradients, tolerance: f32) {
    let values = |of: &Tensor<1>| of.clone().into_data().try_into_vec::<f32>().expect("values");
    assert!(found.iter().map(|(path, _)| path).eq(expected.iter().map(|(path, _)| path)), "other parameters");
    // Gradients of biases before a norm are zero except for the rounding of larger ones.
    let most = expected.iter().flat_map(|(_, of)| values(of)).fold(0.0_f32, |most, value| most.max(value.abs()));
    for ((path, found), (_, expected)) in found.iter().zip(expected.iter()) {
        let (found, expected) = (values(found), values(expected));
        let close = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= tolerance * most);
        assert!(close, "{path}: {found:?} instead of {expected:?}, of at most {most}");
    }
}

/// Three batches of known gradients: one seen during the backward pass, one at its end, and two
/// that form one step.
fn steps(ranks: &Ranks) {
    let tolerance = if ranks.how.wire == Wire::Bf16 { 0.02 } else { 1e-5 };
    let config = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).num_res_units(1).norm("batch");
    let network = config.init(&Device::flex().autodiff(), 1).expect("a network");
    let gradients = |network: &UNet, of: &UNet, factor: f64, rank: usize| {
        let image = Tensor::<5>::ones([1, 1, 8, 8, 8], &Device::flex()) * (rank as f32 + 1.0);
        Gradients::of(of, &(network.forward(image.autodiff()).sum() * factor))
    };
    // Computed here for every rank.
    let mean = |factor: f64| {
        let all = (0..WORLD).map(|rank| gradients(&network, &network, factor, rank));
        all.reduce(|sum, own| sum + own).expect("ranks").scale(1.0 / WORLD as f64)
    };
    let mut reducer = Reducer::new(ranks.clone());
    let rank = ranks.rank();
    reducer.loss = Some(rank as f32);
    near(&reducer.mean(&gradients(&network, &network, 1.0, rank)).expect("a mean"), &mean(1.0), tolerance);
    assert_eq!(reducer.mean_loss, Some(1.0), "of 0, 1 and 2");
    for apart in [false, true] {
        let watched = reducer.watch(&network, &Watching { apart, ..Watching::default() }).expect("several buckets");
        let own = gradients(&watched, &network, 2.0, rank);
        near(&reducer.mean(&own).expect("a mean"), &mean(2.0), tolerance);
        // The second of two batches of a step.
        let first = gradients(&network, &network, 3.0, rank);
        let before = Some((first.clone(), 2));
        let watched = reducer.watch(&network, &Watching { apart, before, factor: None }).expect("several buckets");
        let sum = first + gradients(&watched, &network, 1.0, rank);
        near(&reducer.mean(&sum.scale(0.5)).expect("a mean"), &mean(2.0), tolerance);
    }
    // From now on, only the last rank has a certain parameter.
    let mut more: std::collections::BTreeMap<String, Tensor<1>> =
        gradients(&network, &network, 1.0, rank).iter().map(|(path, of)| (path.to_owned(), of.clone())).collect();
    if rank == WORLD - 1 {
        more.insert("new.weight".to_owned(), Tensor::from_floats([3.0, -6.0], &Device::flex()));
    }
    for _ in 0..2 {
        let found = reducer.mean(&Gradients::from_map(more.clone())).expect("a mean");
        let values = found.get("new.weight").map(|of| of.clone().into_data().try_into_vec::<f32>().expect("values"));
        assert_eq!(values, Some(vec![1.0, -2.0]));
    }
    println!("rank {rank} has taken its steps");
}

#[test]
fn gradients_are_added_where_they_are() {
    for what in ["f32", "bf16"] {
        let (said, calls) = run(what, &[]);
        for rank in 0..WORLD {
            assert!(said.contains(&format!("rank {rank} has taken its steps")), "{said}");
        }
        let count = |name: &str| calls.iter().filter(|call| *call == name).count();
        // Only the values that are no gradients are copied to the GPU and back: by each rank, in
        // each step.
        let (sums, copies) = (count("ncclAllReduce"), count("cuMemcpyHtoDAsync_v2"));
        assert!(sums >= 5 * 7 * WORLD, "{sums} sums: of seven steps, with five buckets or more");
        assert!(copies <= (2 + 2 * 7) * WORLD, "{copies} copies to the GPU");
    }
}

#[test]
fn a_card_that_adds_wrongly_is_found() {
    // Each rank's first sum is that of the connection.
    let (said, _) = run("f32", &[("STUB_WRONG", "ncclAllReduce@1#2")]);
    for rank in 0..WORLD {
        assert!(said.contains(&format!("rank {rank} does not: rank 1: the GPU added 6 as 7")), "{said}");
    }
}
