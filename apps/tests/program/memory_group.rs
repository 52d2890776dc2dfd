//! A run within a memory limit: what does not fit is reported before it is allocated, and no process is
//! killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{errors, phantom, plugins_are_built, succeed, text, tiny_recipe};

/// Bytes that a run may use: enough for the program and some cases.
const LIMIT: u64 = 700 << 20;

/// A control group for this test: of version 2 if that limits memory, else of version 1.
struct Group(PathBuf);

impl Group {
    /// A group with this limit in bytes; `None` if this user cannot create one.
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("hearth-test-{}-{bytes}", std::process::id());
        let places = [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ];
        places.into_iter().find_map(|(place, limit)| {
            let group = Self(Path::new(place).join(&name));
            fs::create_dir(&group.0).ok()?;
            // If no control groups are mounted, it is a folder without a limit.
            let has_limit = group.0.join(limit).is_file() && fs::write(group.0.join(limit), bytes.to_string()).is_ok();
            has_limit.then_some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs the program within the group, or without one within `ulimit -v`.
fn limited(group: Option<&Group>, arguments: &[&str]) -> Output {
    let enter = match group {
        Some(group) => format!("echo $$ > {}", group.0.join("cgroup.procs").display()),
        None => format!("ulimit -v {}", LIMIT >> 10),
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{enter} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_hearth")]).args(arguments);
    shell.env("NO_COLOR", "1").env_remove("HEARTH_PLUGIN_PATH").output().expect("the shell starts")
}

#[test]
fn caches_that_do_not_fit_are_told_and_those_that_take_what_fits_train() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, recipe) = (text(&phantom(dir.path(), 24)), text(&tiny_recipe(dir.path())));
    let group = Group::new(LIMIT);
    // 47 MiB per case: 24 cases exceed the limit.
    let spacing = "transforms.Spacing.pixdim=[2.0,2.0,2.0]";
    let out = text(&dir.path().join("run"));
    let train =
        ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--epochs", "1", "--set", spacing];
    for more in [&[][..], &["--dry-run"]] {
        let output = limited(group.as_ref(), &[&train[..], more].concat());
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{more:?}: {said}");
        assert!(said.contains("the cache would take about") && said.contains("may be used"), "{more:?}: {said}");
        assert!(!Path::new(&out).exists(), "no folder is left behind");
    }
    let Some(group) = group else { return };
    // The number of cases that fit, for a given limit and for a detected one.
    for cache in ["{rate=\"auto\",limit_gib=0.2,workers=1}", "{rate=\"auto\"}"] {
        let cache = format!("data.cache={cache}");
        let output = limited(Some(&group), &[&train[..], &["--set", &cache, "--set", "data.workers=1"]].concat());
        let said = errors(&output);
        assert!(output.status.success(), "{cache}: {:?}: {said}", output.status);
        assert!(said.contains("cache: ") && !said.contains("cache: 23 of 23"), "{cache}: {said}");
        fs::remove_dir_all(&out).expect("the run");
    }
}

/// An image whose prediction does not fit is a failed case, and the others are predicted: a failed
/// allocation would end the process.
#[test]
fn an_image_whose_prediction_does_not_fit_fails_alone() {
    assert!(plugins_are_built());
    let Some(group) = Group::new(320 << 20) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let [data, run, big, out] = ["data", "run", "big", "out"].map(|name| text(&dir.path().join(name)));
    phantom(dir.path(), 3);
    let recipe = text(&tiny_recipe(dir.path()));
    succeed(&["train", &recipe, "--data", &data, "--out", &run, "--epochs", "1", "--device", "cpu"]);
    // 141 MB in f32, of which a prediction needs three.
    succeed(&["data", "phantom", "spleen", "--cases", "1", "--size", "384", "--out", &big]);
    let images = dir.path().join("images");
    fs::create_dir(&images).expect("a folder");
    for (from, name) in [(&big, "a.nii.gz"), (&data, "b.nii.gz")] {
        let image = fs::read_dir(Path::new(from).join("imagesTr")).expect("images").flatten().next().expect("an image");
        fs::copy(image.path(), images.join(name)).expect("a copy");
    }
    let output = limited(Some(&group), &["predict", &run, "-i", &text(&images), "-o", &out, "--device", "cpu"]);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{:?}: {said}", output.status);
    assert!(said.contains("of memory, but") && said.contains("1 of 2 images"), "{said}");
    assert!(Path::new(&out).join("b_seg.nii.gz").is_file(), "{said}");
    assert!(!Path::new(&out).join("a_seg.nii.gz").exists());
}
