//! Plugins that were built with the SDK of earlier interface versions: see `tests/stored`.

use std::path::{Path, PathBuf};

use hearth_engine::{Better, Engine};
use hearth_plugin::identity::{ABI_HASH, ABI_VERSION, OLDEST_ABI, abi_hash};
use hearth_plugin_host::{Search, load};

use crate::table;
use crate::toy::Toy;

/// The stored libraries, unpacked.
fn unpacked(folder: &Path) -> Vec<(u64, PathBuf)> {
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored");
    let files = std::fs::read_dir(stored).expect("the folder").flatten().map(|entry| entry.path());
    let mut found = Vec::new();
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "gz")) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let version = name.trim_start_matches("abi-").split('.').next().and_then(|number| number.parse().ok());
        let version = version.unwrap_or_else(|| panic!("{name} has no version"));
        let packed = std::fs::read(&path).expect("a file");
        let size = packed.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
        assert!(size < 4 << 20, "{name} is small");
        let mut bytes = vec![0; size];
        libdeflater::Decompressor::new().gzip_decompress(&packed, &mut bytes).expect("intact");
        let library = folder.join(format!("libstored_abi_{version}.so"));
        std::fs::write(&library, bytes).expect("written");
        found.push((version, library));
    }
    found
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
fn plugins_of_older_sdks_load_and_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = unpacked(folder.path());
    for (version, library) in &all {
        let plugin = load(library).expect("an older plugin loads");
        assert_eq!((plugin.identity().abi_hash, plugin.identity().needs.as_deref()), (abi_hash(*version), None));
        let mut engine = Engine::new("trainer");
        engine.set_key_metric("dice", Better::Higher);
        let validation = Search::standard(&[], &[]).load("validation").expect("it is bundled");
        engine.add_boxed(validation.handler(table("")).expect("defaults")).expect("a valid handler");
        engine.add_boxed(plugin.handler(table("patience = 2")).expect("valid options")).expect("a valid handler");
        let mut toy = Toy::trainer(1);
        toy.dice = vec![0.5, 0.75, 0.75, 0.75, 0.75];
        engine.run(&mut toy, 5).expect("no error");
        assert_eq!(engine.state().epoch, 4, "ABI {version}: it ends the run");
        let lines = toy.notes.iter().filter(|note| note.contains("is no better")).count();
        assert_eq!(lines, 2, "{:?}", toy.notes);
        let state = engine.snapshot().handlers.into_iter().find(|(name, _)| name.starts_with("stored"));
        assert_eq!(state.expect("a state").1, b"2 0.75");
        let error = plugin.handler(table("patience = 0")).err().expect("refused").to_string();
        assert!(error.ends_with("`patience` is 0; give 1 or more"), "{error}");
    }
    let versions: Vec<u64> = all.iter().map(|(version, _)| *version).collect();
    assert!((OLDEST_ABI..ABI_VERSION).all(|version| versions.contains(&version)), "{versions:?} are stored");
}

#[test]
fn the_versions_before_this_one_have_hashes_of_their_own() {
    assert_eq!(abi_hash(ABI_VERSION), ABI_HASH);
    assert_ne!(abi_hash(OLDEST_ABI), ABI_HASH);
}
