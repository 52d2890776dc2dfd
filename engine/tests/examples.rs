//! The examples work on generated volumes, and are as short as the documentation says.
#![allow(dead_code, reason = "the mains of the examples are not called")]
#![allow(clippy::duplicate_mod, reason = "each example has its own copy of what they share")]

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
#[path = "../examples/step_contrastive.rs"]
mod step_contrastive;
#[path = "../examples/step_distillation.rs"]
mod step_distillation;
#[path = "../examples/step_gan.rs"]
mod step_gan;
#[path = "../examples/step_mean_teacher.rs"]
mod step_mean_teacher;
#[path = "../examples/step_mixup.rs"]
mod step_mixup;
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
        (include_str!("../examples/own_parts.rs"), 60),
    ] {
        assert!(lines(source) <= most, "{} lines, not {most}:\n{source}", lines(source));
    }
}

/// The lines of an example's steps: from `.step(` or `.step_with(` to the end of the closure.
fn step_lines(source: &str) -> usize {
    let mut lines = source.lines();
    let first = lines.find(|line| line.contains(".step(") || line.contains(".step_with(")).expect("a step");
    let indent = first.len() - first.trim_start().len();
    let rest = lines.take_while(|line| line.len() - line.trim_start().len() > indent).map(str::trim);
    2 + rest.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[test]
fn a_step_of_ones_own_has_at_most_40_lines() {
    for (name, source) in [
        ("contrastive", include_str!("../examples/step_contrastive.rs")),
        ("distillation", include_str!("../examples/step_distillation.rs")),
        ("gan", include_str!("../examples/step_gan.rs")),
        ("mean_teacher", include_str!("../examples/step_mean_teacher.rs")),
        ("mixup", include_str!("../examples/step_mixup.rs")),
    ] {
        let lines = step_lines(source);
        println!("{name}: the step has {lines} lines, the example {}", self::lines(source));
        assert!((4..=40).contains(&lines), "{name}: {lines}");
    }
}

/// The loss in an iteration is the mean of the cross-entropies of both labels, weighted as the images.
#[test]
fn mixup_learns_and_has_the_loss_of_its_formula() {
    let (accuracy, worst) = step_mixup::run().expect("trained");
    println!("accuracy {accuracy}, off by {worst}");
    assert!(accuracy > 0.9, "{accuracy}");
    assert!(worst < 1e-5, "{worst}");
}

#[test]
fn a_mean_teacher_and_its_student_segment_alike() {
    let (teacher, student, agreement) = step_mean_teacher::run().expect("trained");
    println!("teacher {teacher}, student {student}, agreement {agreement}");
    assert!(teacher > 0.85 && student > 0.85, "{teacher} {student}");
    assert!(agreement > 0.95, "{agreement}");
}

#[test]
fn a_student_agrees_with_its_teacher_without_labels() {
    let (before, after) = step_distillation::run().expect("trained");
    println!("before {before}, after {after}");
    assert!(before < 0.9 && after > 0.95, "{before} {after}");
}

#[test]
fn contrastive_views_find_each_other() {
    let (before, after) = step_contrastive::run().expect("trained");
    println!("before {before}, after {after}");
    // Chance is 1/64.
    assert!(after > 0.2 && after > before, "{before} {after}");
}

#[test]
fn generated_images_become_as_bright_as_real_ones() {
    let [real, before, after] = step_gan::run().expect("trained");
    println!("real {real}, before {before}, after {after}");
    assert!((after - real).abs() < 0.3 * (before - real).abs(), "{real} {before} {after}");
}
