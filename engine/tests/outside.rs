//! The pages about the library, followed literally: their `Cargo.toml` and all their code, as a crate outside
//! of the workspace.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The pages whose code a reader copies.
const PAGES: [&str; 2] = ["library", "own"];

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
fn the_pages_compile_as_a_crate_of_their_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folder = tempfile::tempdir().expect("a folder");
    let page = |name: &str| fs::read_to_string(root.join("docs").join(name).with_extension("md")).expect(name);

    let manifest = blocks(&page("library"), "toml").into_iter().next().expect("the first block is a Cargo.toml");
    let stated = "path = \"../hearth/engine\"";
    assert!(manifest.contains(stated), "{manifest}");
    let manifest = manifest.replace(stated, &format!("path = {:?}", root.join("engine")));
    // Cargo asks for the crates that GPU builds patch, even without them: they are not downloaded here.
    let patched = ["cubecl-runtime", "cubecl-spirv"].map(|name| {
        let path = root.join("third_party").join(name);
        format!("{name} = {{ path = {path:?} }}\n")
    });
    let manifest = format!("{manifest}\n[patch.crates-io]\n{}", patched.concat());

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
    assert_eq!(main.lines().count(), 3, "{main}");
    fs::write(source.join("main.rs"), main + "fn main() {}\n").expect("a file");
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
    fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).expect("the same versions");

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["check", "--offline", "--quiet"])
        .current_dir(folder.path())
        .env("CARGO_TARGET_DIR", folder.path().join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
