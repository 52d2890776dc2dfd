//! The examples work on generated volumes, and are as short as the documentation says.
#![allow(dead_code, reason = "the mains of the examples are not called")]

use hearth::data::phantom::{self, SpleenOptions};

#[path = "../examples/classification.rs"]
mod classification;
#[path = "../examples/custom_handler.rs"]
mod custom_handler;
#[path = "../examples/custom_loop.rs"]
mod custom_loop;
#[path = "../examples/custom_steps.rs"]
mod custom_steps;
#[path = "../examples/gan.rs"]
mod gan;
#[path = "../examples/inference.rs"]
mod inference;
#[path = "../examples/own_parts.rs"]
mod own_parts;
#[path = "../examples/reconstruction.rs"]
mod reconstruction;
#[path = "../examples/regions.rs"]
mod regions;
#[path = "../examples/regression.rs"]
mod regression;
#[path = "../examples/train.rs"]
mod train;

/// Lines of code: what is neither empty nor a comment.
fn lines(source: &str) -> usize {
    source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// One test, since all of them work in the current folder.
#[test]
fn every_example_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    std::env::set_current_dir(folder.path()).expect("entered");
    phantom::spleen("Task09_Spleen", 5, &SpleenOptions::default().size(32)).expect("written");

    train::main().expect("trained");
    let newest = hearth::train::checkpoint::newest("checkpoints".as_ref()).expect("a checkpoint");
    assert_eq!(newest.manifest.header.epoch, 3);

    // Weights of that run, for one of its images.
    let image = std::fs::read_dir("Task09_Spleen/imagesTr").expect("images").next().expect("one").expect("read").path();
    std::fs::copy(&image, "image.nii.gz").expect("copied");
    std::fs::copy(newest.path.join("network.safetensors"), "network.safetensors").expect("copied");
    inference::main().expect("predicted");
    let labels = hearth::data::read_image("labels.nii.gz").expect("a label map");
    let original = hearth::data::read_image(&image).expect("the image");
    assert_eq!((labels.shape(), labels.affine), (original.shape(), original.affine));
    assert!(labels.to_vec().iter().all(|class| [0.0, 1.0].contains(class)));

    // The loss begins at 0.99; only the example's own handler ends the run.
    let end = own_parts::train().expect("trained");
    assert!(matches!(&end, hearth::prelude::RunEnd::Terminated(why) if why == "good enough"), "{end:?}");
    regions::main().expect("trained");
    classification::main().expect("trained");
    regression::main().expect("trained");
    reconstruction::main().expect("trained");
    custom_loop::main().expect("trained");
    custom_handler::main().expect("trained");
    custom_steps::main().expect("trained");
    gan::main().expect("trained");
    let newest = hearth::train::checkpoint::newest("gan".as_ref()).expect("a checkpoint");
    assert!(newest.has("discriminator/network.safetensors"));
}

#[test]
fn the_shortest_ones_are_short() {
    for (source, most) in [
        (include_str!("../examples/train.rs"), 32),
        (include_str!("../examples/inference.rs"), 15),
        (include_str!("../examples/own_parts.rs"), 100),
    ] {
        assert!(lines(source) <= most, "{} lines, not {most}:\n{source}", lines(source));
    }
}
