//! The pages about the library, followed literally: their `Cargo.toml` and all their code, as a crate outside
//! of the workspace. In the same crate: what callers may write, and what the compiler answers to mistakes.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The pages whose code a reader copies.
const PAGES: [&str; 2] = ["library", "own"];

/// What callers write, and the library accepts: whole numbers, lists of any kind, more than 12 transforms.
const ACCEPTED: &str = r#"
use hearth::prelude::*;

pub fn main() -> hearth::Result {
    let keys: Vec<String> = vec!["image".into(), "label".into()];
    let load = LoadImage::new(&keys[..]);
    let scale = ScaleIntensityRange::new(&keys[0], -57.0, 164.0).b_min(0).b_max(1);
    let spacing = Spacing::new(vec!["image", "label"], [1, 1, 2]);
    let crop = RandCropByPosNegLabel::new(keys, "label", 16).num_samples(2);
    let flip = || RandFlip::new("image");
    let flips = (flip(), flip(), flip(), flip(), flip(), flip(), flip(), flip(), flip());
    let all = (load, scale, spacing, crop, flip(), flip(), flip(), flip(), flip(), flip(), flip(), flip(), flip(), flips);
    assert_eq!(Pipeline::new(all)?.len(), 22);
    assert_eq!(Pipeline::new(vec![flip(), flip()])?.len() + Pipeline::new([flip(), flip(), flip()])?.len(), 5);
    Ok(())
}
"#;

/// Mistakes: the name, the code in a function of network, loader and data set, and what the compiler answers.
const MISTAKES: [(&str, &str, &[&str]); 6] = [
    (
        "closure_as_handler",
        "SupervisedTrainer::builder(net, DiceLoss::default(), AdamConfig::default(), loader)
            .handler(|cx: &mut Context<'_>| Ok(()));",
        &["is not a handler", ".on(Event::EpochCompleted, |cx| ...)"],
    ),
    (
        "closure_as_loss",
        "SupervisedTrainer::builder(net, |a: Tensor<5>, b: Tensor<5>| (a - b).mean(), AdamConfig::default(), loader);",
        &["is not a loss", "loss_fn(\"LogCosh\", |input, target|"],
    ),
    (
        "closure_as_metric",
        "SupervisedEvaluator::<UNet>::builder(loader).metric(\"x\", |a: Tensor<5>, b: Tensor<5>| (a - b).mean());",
        &["is not a metric", "`.gathered()`", "metric_fn(\"VolumeError\", |pred, label| ...)"],
    ),
    (
        "data_set_as_loader",
        "SupervisedTrainer::builder(net, DiceLoss::default(), AdamConfig::default(), data);",
        &["CacheDataset` is not a source of batches", "DataLoader::new(data, LoaderOptions::default())?"],
    ),
    (
        "name_as_transform",
        "Pipeline::new((LoadImage::new(\"image\"), \"RandFlip\")).ok();",
        &["these are not the transforms of a pipeline", "a tuple of up to 24 transforms"],
    ),
    (
        "unit_as_network",
        "SupervisedTrainer::builder((), DiceLoss::default(), AdamConfig::default(), loader);",
        &["`()` is not a network", "`channels` and `forward`"],
    ),
];

/// The blocks of a page that begin with ```` ```LANGUAGE ````.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == fence {
            found.push(lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect());
        }
    }
    found
}

#[test]
#[ignore = "checks the library and all that it uses once more: two minutes"]
fn the_pages_compile_as_a_crate_of_their_own_and_mistakes_are_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folder = tempfile::tempdir().expect("a folder");
    let page = |name: &str| fs::read_to_string(root.join("docs").join(name).with_extension("md")).expect(name);

    let manifest = blocks(&page("library"), "toml").into_iter().next().expect("the first block is a Cargo.toml");
    let stated = "path = \"../hearth/engine\"";
    assert!(manifest.contains(stated), "{manifest}");
    let manifest = manifest.replace(stated, &format!("path = {:?}", root.join("engine")));
    // Cargo asks for the crates that GPU builds patch, even without them: they are not downloaded here.
    let patched = fs::read_dir(root.join("third_party")).expect("a folder").flatten().map(|entry| entry.path());
    let patched = patched.filter(|path| path.join("Cargo.toml").is_file());
    let patched: String = patched
        .map(|path| format!("{} = {{ path = {path:?} }}\n", path.file_name().expect("a name").to_string_lossy()))
        .collect();
    let manifest = format!("{manifest}\n[patch.crates-io]\n{patched}");

    let source = folder.path().join("src");
    fs::create_dir(&source).expect("a folder");
    let mut main = String::new();
    for name in PAGES {
        for (number, block) in blocks(&page(name), "rust").iter().enumerate() {
            assert!(!block.lines().any(|line| line.starts_with("# ")), "{name}: a reader sees hidden lines");
            let module = format!("{name}_{number}");
            fs::write(source.join(&module).with_extension("rs"), block).expect("a file");
            main += &format!("mod {module};\n");
        }
    }
    assert_eq!(main.lines().count(), 4, "{main}");
    fs::write(source.join("accepted.rs"), ACCEPTED).expect("a file");
    main += "mod accepted;\n";
    fs::write(source.join("main.rs"), main + "fn main() {}\n").expect("a file");
    fs::create_dir(folder.path().join("examples")).expect("a folder");
    for (name, code, _) in MISTAKES {
        let code = format!(
            "use hearth::prelude::*;\nfn of(net: UNet, loader: DataLoader, data: CacheDataset) {{\n{code}\n}}\nfn main() {{}}\n"
        );
        fs::write(folder.path().join("examples").join(name).with_extension("rs"), code).expect("a file");
    }
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
    fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).expect("the same versions");

    let check = |what: &[&str]| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["check", "--offline", "--quiet"])
            .args(what)
            .current_dir(folder.path())
            .env("CARGO_TARGET_DIR", folder.path().join("target"))
            .env_remove("RUSTFLAGS")
            .output()
            .expect("cargo starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (compiles, errors) = check(&[]);
    assert!(compiles, "{errors}");
    for (name, code, answers) in MISTAKES {
        let (compiles, errors) = check(&["--example", name]);
        assert!(!compiles, "{name} compiles: {code}");
        let missing: Vec<&&str> = answers.iter().filter(|answer| !errors.contains(**answer)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?} in\n{errors}");
        // A metric lacks two traits.
        assert!((1..=2).contains(&errors.matches("error[").count()), "{name}: one mistake is one error:\n{errors}");
    }
}
