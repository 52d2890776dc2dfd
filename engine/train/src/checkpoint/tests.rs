//! Tests crashes, full disks and bit rot at every step of writing.

use std::fs;
use std::io;
use std::path::Path;

use super::write::{Step, write_gated};
use super::*;

fn header(epoch: u64, iteration: u64, tag: &str) -> Header {
    Header { epoch, iteration, tag: tag.into(), ..Header::default() }
}

fn files(fill: u8) -> Files {
    let mut files = Files::new();
    files.insert("network.safetensors".into(), vec![fill; 4096]);
    files.insert("engine.json".into(), b"{}".to_vec());
    files.insert("handlers/stats.bin".into(), vec![fill; 10]);
    files.insert("rng/seed".into(), b"7".to_vec());
    files
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read_back_and_the_newest_wins() {
    let dir = tempfile::tempdir().unwrap();
    let first = write(dir.path(), &header(7, 123, "best"), &files(1)).unwrap();
    assert_eq!(first.file_name().unwrap(), "epoch=0007-iteration=000123-best");
    // Newer in time, though earlier in the run: a run was resumed from an older checkpoint.
    let second = write(dir.path(), &header(6, 100, "epoch"), &files(2)).unwrap();
    let newest = newest(dir.path()).unwrap();
    assert_eq!(newest.path, second);
    assert_eq!(newest.file("network.safetensors").unwrap(), vec![2; 4096]);
    assert_eq!(newest.file("handlers/stats.bin").unwrap(), vec![2; 10]);
    assert_eq!(chosen(dir.path(), Some("best"), None).unwrap().path, first);
    assert_eq!(super::newest(&first).unwrap().path, first, "a checkpoint's own folder is accepted too");
    assert_eq!(names(dir.path()).len(), 2, "no temporary folder stays");
}

#[test]
fn the_same_moment_saved_twice_touches_the_first_only_by_pruning() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &header(1, 5, "epoch"), &files(1)).unwrap();
    let again = write(dir.path(), &header(1, 5, "epoch"), &files(2)).unwrap();
    assert_eq!(again.file_name().unwrap(), "epoch=0001-iteration=000005-epoch~2");
    assert_eq!(newest(dir.path()).unwrap().path, again);
    prune(dir.path(), "epoch", 1).unwrap();
    assert_eq!(names(dir.path()), ["epoch=0001-iteration=000005-epoch~2"]);
}

/// A refused step: the caller gets the system's error, the temporary folder is removed, the earlier
/// checkpoint is intact.
#[test]
fn a_full_disk_at_any_step_loses_nothing() {
    for step in [Step::CreateFolder, Step::WriteFile, Step::WriteManifest, Step::FlushFolder, Step::Rename] {
        let dir = tempfile::tempdir().unwrap();
        let before = write(dir.path(), &header(1, 4, "epoch"), &files(1)).unwrap();
        let error = write_gated(dir.path(), &header(2, 8, "epoch"), &files(2), &mut |now| {
            if now == step { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })
        .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("disk is full") && text.contains("earlier checkpoints are untouched"), "{text}");
        assert_eq!(names(dir.path()), ["epoch=0001-iteration=000004-epoch"], "{step:?}");
        assert_eq!(newest(dir.path()).unwrap().path, before);
    }
}

/// A killed writer: its leftovers at each step are skipped, and the next writer removes them.
#[test]
fn a_crash_at_any_step_leaves_the_previous_one_newest() {
    struct Killed;
    for step in [Step::CreateFolder, Step::WriteFile, Step::WriteManifest, Step::FlushFolder, Step::Rename] {
        let dir = tempfile::tempdir().unwrap();
        let before = write(dir.path(), &header(1, 4, "epoch"), &files(1)).unwrap();
        let mut writes = 0;
        let crash = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            write_gated(dir.path(), &header(2, 8, "epoch"), &files(2), &mut |now| {
                writes += u32::from(now == Step::WriteFile);
                if now == step && (now != Step::WriteFile || writes == 3) {
                    std::panic::resume_unwind(Box::new(Killed));
                }
                Ok(())
            })
        }));
        assert!(crash.is_err());
        assert_eq!(newest(dir.path()).unwrap().path, before, "{step:?}");
        let after = write(dir.path(), &header(2, 8, "epoch"), &files(3)).unwrap();
        assert_eq!(newest(dir.path()).unwrap().path, after);
        assert_eq!(names(dir.path()).len(), 2, "{step:?}: the leftover is cleared away");
    }
}

/// Every file truncated, lengthened, changed, or deleted: the damage is named, and the previous
/// checkpoint is used.
#[test]
fn damage_to_any_file_is_found_and_named() {
    let all = ["network.safetensors", "engine.json", "handlers/stats.bin", "rng/seed", MANIFEST];
    for file in all {
        for kind in ["cut", "longer", "flipped", "deleted", "empty"] {
            let dir = tempfile::tempdir().unwrap();
            let before = write(dir.path(), &header(1, 4, "epoch"), &files(1)).unwrap();
            let damaged = write(dir.path(), &header(2, 8, "epoch"), &files(2)).unwrap();
            let path = damaged.join(file);
            let mut bytes = fs::read(&path).unwrap();
            match kind {
                "cut" => bytes.truncate(bytes.len() - 1),
                "longer" => bytes.push(b'0'),
                "flipped" => {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                }
                "empty" => bytes.clear(),
                _ => {}
            }
            if kind == "deleted" {
                fs::remove_file(&path).unwrap()
            } else {
                fs::write(&path, bytes).unwrap()
            }
            assert_eq!(newest(dir.path()).unwrap().path, before, "{file} {kind}");
            let text = Checkpoint::open(&damaged).unwrap_err().to_string();
            assert!(text.contains(file) && text.contains("is damaged"), "{file} {kind}: {text}");
        }
    }
}

/// Weights that are used as they are: a damaged checkpoint is never replaced by another one.
#[test]
fn a_damaged_choice_is_an_error_and_an_absent_one_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let pick = |tag| chosen(dir.path(), tag, None);
    assert!(matches!(pick(Some("best")), Err(CheckpointError::None { .. })));
    let older = write(dir.path(), &header(1, 4, "best"), &files(1)).unwrap();
    let best = write(dir.path(), &header(2, 8, "best"), &files(2)).unwrap();
    let last = write(dir.path(), &header(3, 12, "epoch"), &files(3)).unwrap();
    assert_eq!(pick(Some("best")).unwrap().path, best);
    let kept = fs::read(best.join("network.safetensors")).unwrap();
    let manifest = fs::read(best.join(MANIFEST)).unwrap();
    let mut flipped = kept.clone();
    flipped[9] ^= 1;
    for (file, bytes) in [("network.safetensors", &flipped[..]), ("network.safetensors", b"cut"), (MANIFEST, b"{")] {
        fs::write(best.join(file), bytes).unwrap();
        let error = pick(Some("best")).unwrap_err();
        assert!(matches!(&error, CheckpointError::Damaged { path, .. } if *path == best), "{file}: {error}");
        assert_eq!(pick(None).unwrap().path, last, "the latest is another one");
        let mut names = intact(dir.path()).unwrap();
        names.sort();
        assert_eq!(names, [&older, &last].map(|path| path.file_name().unwrap().to_string_lossy().into_owned()));
        fs::write(best.join("network.safetensors"), &kept).unwrap();
        fs::write(best.join(MANIFEST), &manifest).unwrap();
    }
    fs::remove_file(last.join(MANIFEST)).unwrap();
    assert!(matches!(pick(None), Err(CheckpointError::Damaged { path, .. }) if path == last));
    assert_eq!(newest(dir.path()).unwrap().path, best, "a run resumes before the damaged one");
    // It comes to the same iteration again, and what it writes there is used.
    let again = write(dir.path(), &header(3, 12, "epoch"), &files(4)).unwrap();
    assert_eq!(pick(None).unwrap().path, again);
    fs::remove_dir_all(&best).unwrap();
    assert_eq!(pick(Some("best")).unwrap().path, older);
}

#[test]
fn a_checkpoint_of_another_run_is_refused_and_never_pruned_for_ours() {
    let dir = tempfile::tempdir().unwrap();
    let of = |run: &str, epoch| Header { run: Some(run.into()), ..header(epoch, 4 * epoch, "best") };
    let ours = write(dir.path(), &of("a", 1), &files(1)).unwrap();
    let theirs = write(dir.path(), &of("b", 2), &files(2)).unwrap();
    for refused in [newest_of(dir.path(), Some("a")), chosen(dir.path(), Some("best"), Some("a"))] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("epoch=0002") && text.contains("another run (b)") && text.contains("move it"), "{text}");
    }
    assert_eq!(newest_of(dir.path(), Some("b")).unwrap().path, theirs);
    let unnamed = write(dir.path(), &header(3, 12, "best"), &files(3)).unwrap();
    assert!(newest_of(dir.path(), Some("a")).unwrap_err().to_string().contains("without a name"));
    assert_eq!(newest(dir.path()).unwrap().path, unnamed);
    let newer = write(dir.path(), &of("a", 4), &files(4)).unwrap();
    assert_eq!(prune_of(dir.path(), Some("a"), "best", 1).unwrap(), [ours]);
    assert!(theirs.exists() && unnamed.exists() && newer.exists());
}

#[test]
fn with_nothing_whole_the_error_lists_what_was_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let text = newest(&dir.path().join("absent")).unwrap_err().to_string();
    assert!(text.contains("no intact checkpoint in") && text.contains("absent"), "{text}");
    let only = write(dir.path(), &header(3, 9, "epoch"), &files(1)).unwrap();
    fs::remove_file(only.join(MANIFEST)).unwrap();
    let text = newest(dir.path()).unwrap_err().to_string();
    assert!(text.contains("epoch=0003-iteration=000009-epoch: it has no manifest.json"), "{text}");
}

#[test]
fn a_manifest_cannot_lead_out_of_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["../evil", "/etc/passwd", "a/../../b", "a//b", "", MANIFEST, "c:\\x"] {
        let mut files = Files::new();
        files.insert(name.into(), vec![0]);
        assert!(matches!(write(dir.path(), &header(1, 1, "epoch"), &files), Err(CheckpointError::FileName { .. })));
    }
    for tag in ["", "../x", "a/b", ".hidden", "white space", &"x".repeat(65)] {
        let error = write(dir.path(), &header(1, 1, tag), &files(0)).unwrap_err();
        assert!(matches!(error, CheckpointError::Tag { .. }), "{tag}");
    }
    assert!(names(dir.path()).is_empty());
    // A forged, properly sealed one: the seal is no secret, so the names are checked, too.
    let folder = write(dir.path(), &header(1, 1, "epoch"), &files(0)).unwrap();
    let mut manifest = Manifest::new(1, &header(1, 1, "epoch"), &files(0));
    let sum = manifest.files.remove("rng/seed").unwrap();
    manifest.files.insert("../../secret".into(), sum);
    fs::write(folder.join(MANIFEST), manifest.to_json().unwrap()).unwrap();
    let text = newest(dir.path()).unwrap_err().to_string();
    assert!(text.contains("../../secret") && text.contains("outside of the checkpoint"), "{text}");
}

#[test]
fn pruning_keeps_the_newest_of_a_tag_and_the_best() {
    let dir = tempfile::tempdir().unwrap();
    let best = Header { best: true, value: Some(0.9), key_metric: Some("mean_dice".into()), ..header(2, 8, "epoch") };
    write(dir.path(), &Header { best: true, ..header(1, 4, "epoch") }, &files(1)).unwrap();
    write(dir.path(), &best, &files(2)).unwrap();
    for epoch in 3..=6 {
        write(dir.path(), &header(epoch, 4 * epoch, "epoch"), &files(3)).unwrap();
    }
    write(dir.path(), &header(6, 24, "final"), &files(4)).unwrap();
    assert_eq!(prune(dir.path(), "epoch", 2).unwrap().len(), 3);
    let kept: Vec<_> = list(dir.path()).unwrap().into_iter().map(|e| e.manifest.unwrap().header.epoch).collect();
    assert_eq!(kept, [6, 6, 5, 2], "newest first: final, two epochs, the best");
    assert!(prune(dir.path(), "epoch", 2).unwrap().is_empty());
    assert!(prune(dir.path(), "nothing", 0).unwrap().is_empty());
}

#[test]
fn pruning_never_deletes_the_only_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let whole = write(dir.path(), &header(1, 4, "epoch"), &files(1)).unwrap();
    for epoch in 2..=4 {
        let damaged = write(dir.path(), &header(epoch, 4 * epoch, "epoch"), &files(2)).unwrap();
        fs::write(damaged.join("network.safetensors"), b"cut").unwrap();
    }
    prune(dir.path(), "epoch", 0).unwrap();
    assert_eq!(newest(dir.path()).unwrap().path, whole);
}

#[test]
fn a_folder_that_cannot_be_made_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    let text = write(&file.join("checkpoints"), &header(1, 1, "epoch"), &files(1)).unwrap_err().to_string();
    assert!(text.contains("cannot write checkpoint") && text.contains("making"), "{text}");
}

#[test]
fn handler_names_become_safe_and_distinct_file_names() {
    let long = "x".repeat(300);
    let all = ["stats", "stats#2", "Stats", "../../etc", ".", "", "a b", "a%20b", "läufer", "con/aux", &long];
    let mut seen = std::collections::BTreeSet::new();
    for text in all {
        let name = file_name_of(text);
        assert!(!name.starts_with('.') && !name.contains('/') && name.len() <= 100 && !name.is_empty(), "{name}");
        assert!(name::check_relative(&format!("handlers/{name}.bin")).is_ok(), "{name}");
        assert!(seen.insert(name.to_lowercase()), "{text} -> {name}");
    }
}

#[test]
fn a_value_of_nan_does_not_spoil_the_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let nan = Header { value: Some(f64::NAN), key_metric: Some("loss".into()), ..header(1, 1, "epoch") };
    write(dir.path(), &nan, &files(1)).unwrap();
    // A value whose last digit a parser may get wrong.
    let odd = Header { value: Some(0.784_313_725_490_196_1), ..header(2, 2, "epoch") };
    let path = write(dir.path(), &odd, &files(1)).unwrap();
    assert_eq!(newest(dir.path()).unwrap().path, path);
}
