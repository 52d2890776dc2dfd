//! Known advisories on outside crates, from a list that is kept in the repository: `.ci/run` asks RustSec's own,
//! which cannot be reached everywhere.

use std::cmp::Ordering;
use std::path::Path;

/// An advisory on a crate.
struct Advisory {
    id: String,
    name: String,
    /// Ranges of versions that are not affected.
    sound: Vec<String>,
}

fn read(path: &str) -> String {
    // The folder of this package is `tests`.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn advisories() -> Vec<Advisory> {
    let text = read(".ci/advisories.txt");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let cells: Vec<&str> = line.splitn(4, " | ").collect();
        let [id, name, sound, _] = cells[..] else { panic!("{line}") };
        let sound = sound.split(" or ").filter(|range| *range != "none").map(str::to_owned).collect();
        Advisory { id: id.to_owned(), name: name.to_owned(), sound }
    })
    .collect()
}

/// The outside crates of `Cargo.lock`: name and version.
fn locked() -> Vec<(String, String)> {
    let text = read("Cargo.lock");
    let packages = text.split("[[package]]").skip(1);
    let value = |package: &str, key: &str| {
        package.lines().find_map(|line| line.strip_prefix(&format!("{key} = \""))?.strip_suffix('"').map(str::to_owned))
    };
    packages.filter_map(|package| Some((value(package, "name")?, value(package, "version")?))).collect()
}

/// The advisories that `deny.toml` ignores, each with the comment above it.
fn excused() -> Vec<(String, String)> {
    let (mut found, mut comment) = (Vec::new(), String::new());
    for line in read("deny.toml").lines().map(str::trim) {
        if let Some(text) = line.strip_prefix('#') {
            comment.push_str(text);
        } else {
            if line.starts_with("\"RUSTSEC-") {
                found.push((line.trim_matches(['"', ',']).to_owned(), comment.clone()));
            }
            comment.clear();
        }
    }
    found
}

/// Major, minor and patch of a version, and whether it is a release; missing parts are 0.
fn parts(version: &str) -> ([u64; 3], bool) {
    let version = version.split('+').next().unwrap_or_default();
    let (numbers, release) = version.split_once('-').map_or((version, true), |(numbers, _)| (numbers, false));
    let mut found = [0; 3];
    for (place, number) in numbers.split('.').enumerate() {
        found[place] = number.parse().unwrap_or_else(|_| panic!("{version} is no version"));
    }
    (found, release)
}

/// Whether a version satisfies all comparisons of a range: `>= 0.4.8, < 1.0.0-0`.
fn is_within(version: &str, range: &str) -> bool {
    let ours = parts(version);
    range.split(',').map(str::trim).all(|comparison| {
        let digits = comparison.find(|c: char| c.is_ascii_digit()).unwrap_or_else(|| panic!("{range}"));
        let (operator, bound) = comparison.split_at(digits);
        let theirs = parts(bound);
        let order = ours.cmp(&theirs);
        match operator.trim() {
            ">=" => order != Ordering::Less,
            ">" => order == Ordering::Greater,
            "<=" => order != Ordering::Greater,
            "<" => order == Ordering::Less,
            "=" | "" => order == Ordering::Equal,
            "^" => {
                let fixed = theirs.0.iter().position(|part| *part > 0).unwrap_or(2);
                order != Ordering::Less && ours.0[..=fixed] == theirs.0[..=fixed]
            }
            "~" => order != Ordering::Less && ours.0[..2] == theirs.0[..2],
            other => panic!("{range}: {other}"),
        }
    })
}

/// The advisories on versions of `Cargo.lock`.
fn affecting() -> Vec<(Advisory, String)> {
    let locked = locked();
    let version = |advisory: &Advisory| {
        let sound = |version: &str| advisory.sound.iter().any(|range| is_within(version, range));
        locked.iter().find(|(name, version)| *name == advisory.name && !sound(version)).map(|(_, version)| version)
    };
    let found = advisories().into_iter().filter_map(|advisory| {
        let version = version(&advisory)?.clone();
        Some((advisory, version))
    });
    found.collect()
}

#[test]
fn known_advisories_are_replaced_or_excused() {
    assert!(advisories().len() > 100 && locked().len() > 300, "the lists are not read");
    let excused = excused();
    for (Advisory { id, name, .. }, version) in affecting() {
        let excuse = excused.iter().find(|(known, _)| *known == id);
        let (_, reason) =
            excuse.unwrap_or_else(|| panic!("{name} {version} has {id}: update it, or excuse it in deny.toml"));
        assert!(
            reason.contains(&format!("`{name}`")) && reason.len() > 60,
            "{id}: say of `{name}` why, and what it reaches"
        );
    }
}

#[test]
fn excuses_are_for_crates_that_are_used() {
    let needed: Vec<String> = affecting().into_iter().map(|(advisory, _)| advisory.id).collect();
    for (id, _) in excused() {
        assert!(needed.contains(&id), "deny.toml: nothing of Cargo.lock has {id}; drop the excuse");
    }
}

#[test]
fn ranges_are_those_of_cargo() {
    for (version, range, within) in [
        ("1.2.3", ">= 1.2.3", true),
        ("1.2.2", ">= 1.2.3", false),
        ("2.28.0", ">= 3.7.2", false),
        ("0.9.9", ">= 0.4.8, < 1.0.0-0", true),
        ("1.0.0", ">= 0.4.8, < 1.0.0-0", false),
        ("1.10.0", "< 1.9", false),
        ("0.3.5", "^0.3.4", true),
        ("0.4.0", "^0.3.4", false),
        ("1.9.0", "^1.2", true),
        ("1.3.0", "~1.2.4", false),
        ("1.0.0-rc.1", ">= 1.0.0", false),
        ("0.6.9+4.9.2", "= 0.6.9", true),
    ] {
        assert_eq!(is_within(version, range), within, "{version} {range}");
    }
}
