//! The software bill of materials of a program: CycloneDX 1.5 as JSON.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::build::Release;
use crate::crates::{Crate, Crates};
use crate::natives::Native;
use crate::root;

/// Creates the document, which depends only on the crates, the libraries and the time.
pub fn document(crates: &Crates, natives: &[Native], release: &Release) -> Value {
    let components: Vec<Value> = crates
        .all
        .iter()
        .filter(|(key, _)| **key != crates.program)
        .map(|(_, one)| component(one, "library"))
        .chain(natives.iter().map(native))
        .collect();
    let dependencies: Vec<Value> = crates
        .all
        .values()
        .map(|one| {
            let mut uses: Vec<String> = one.uses.iter().filter_map(|key| crates.all.get(key)).map(reference).collect();
            if one.key() == crates.program {
                uses.extend(natives.iter().map(native_reference));
            }
            json!({ "ref": reference(one), "dependsOn": uses })
        })
        .collect();
    let program = crates.all.get(&crates.program).map(|one| component(one, "application"));
    let digest = Sha256::digest(json!([components, dependencies, release.commit]).to_string());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    // A hash of the content in the form of a random identifier (version 4).
    let serial = format!("urn:uuid:{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32]);
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": serial,
        "version": 1,
        "metadata": {
            "timestamp": timestamp(release.time),
            "component": program,
            "properties": [{ "name": "hearth:commit", "value": release.commit }],
        },
        "components": components,
        "dependencies": dependencies,
    })
}

/// The package URL of a crate, by which the document refers to it.
fn reference(one: &Crate) -> String {
    format!("pkg:cargo/{}@{}", one.name, one.version)
}

/// The package URL of a library without a registry. `+` has a meaning in such URLs.
fn native_reference(one: &Native) -> String {
    let name = one.name.replace('+', "%2B");
    one.version
        .as_ref()
        .map_or_else(|| format!("pkg:generic/{name}"), |version| format!("pkg:generic/{name}@{version}"))
}

fn native(one: &Native) -> Value {
    let mut component = Map::new();
    component.insert("type".into(), "library".into());
    component.insert("bom-ref".into(), native_reference(one).into());
    component.insert("name".into(), one.name.into());
    if let Some(version) = &one.version {
        component.insert("version".into(), version.clone().into());
    }
    component.insert("licenses".into(), json!([{ "expression": one.licence }]));
    component.insert("purl".into(), native_reference(one).into());
    component.insert("externalReferences".into(), json!([{ "type": "vcs", "url": one.address }]));
    component.into()
}

fn component(one: &Crate, kind: &str) -> Value {
    let mut component = Map::new();
    component.insert("type".into(), kind.into());
    component.insert("bom-ref".into(), reference(one).into());
    component.insert("name".into(), one.name.clone().into());
    component.insert("version".into(), one.version.clone().into());
    if let Some(description) = &one.description {
        component.insert("description".into(), description.split_whitespace().collect::<Vec<_>>().join(" ").into());
    }
    if let Some(sum) = &one.sha256 {
        component.insert("hashes".into(), json!([{ "alg": "SHA-256", "content": sum }]));
    }
    if let Some(licence) = &one.licence {
        // Before SPDX had `OR`, crates used a slash.
        component.insert("licenses".into(), json!([{ "expression": licence.replace('/', " OR ") }]));
    }
    component.insert("purl".into(), reference(one).into());
    if one.folder.starts_with(root().join("third_party")) {
        let published = json!({ "type": kind, "name": one.name, "version": one.version, "purl": reference(one) });
        let notes = "changed as third_party/README.md of this program's repository says";
        component.insert("pedigree".into(), json!({ "ancestors": [published], "notes": notes }));
    }
    if let Some(repository) = &one.repository {
        component.insert("externalReferences".into(), json!([{ "type": "vcs", "url": repository }]));
    }
    component.into()
}

/// Seconds since 1970 as `2026-11-25T08:00:00Z`.
pub fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Days since 1 March of the year 0, in eras of 400 years: Howard Hinnant, "chrono-Compatible Low-Level Date
    // Algorithms".
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march / 146_097, from_march % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn times_are_those_of_date() {
        // `date -u -d @SECONDS +%FT%TZ`
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_583_020_799, "2020-02-29T23:59:59Z"),
            (1_795_597_200, "2026-11-25T09:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, text) in known {
            assert_eq!(timestamp(seconds), text);
        }
    }

    #[test]
    fn parts_are_named_as_cyclonedx_names_them() {
        let one = |name: &str, sum: Option<&str>, uses: &[&str]| Crate {
            name: name.into(),
            version: "1.0.0".into(),
            licence: Some("MIT/Apache-2.0".into()),
            description: Some("A\n  thing".into()),
            repository: Some("https://example.org".into()),
            authors: Vec::new(),
            folder: "/src".into(),
            licence_file: None,
            sha256: sum.map(str::to_owned),
            uses: uses.iter().map(|name| format!("{name}-1.0.0")).collect::<BTreeSet<_>>(),
        };
        let all = [one("app", None, &["part"]), one("part", Some("ab12"), &[])].map(|one| (one.key(), one));
        let crates = Crates { all: BTreeMap::from(all), program: "app-1.0.0".into() };
        let release = Release { version: "1.0.0".into(), target: "t".into(), commit: "c".into(), time: 0 };
        let lib = Native {
            name: "lib++",
            version: Some("2.1".into()),
            licence: "Zlib",
            address: "https://example.org",
            text: "/text".into(),
        };
        let natives = [lib.clone(), Native { name: "other", version: None, ..lib }];
        let document = document(&crates, &natives, &release);
        assert_eq!(document, super::document(&crates, &natives, &release), "it is reproducible");
        assert_eq!(document["metadata"]["component"]["name"], "app");
        let expected = json!([{
            "type": "library", "bom-ref": "pkg:cargo/part@1.0.0", "name": "part", "version": "1.0.0", "description": "A thing",
            "hashes": [{ "alg": "SHA-256", "content": "ab12" }], "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "purl": "pkg:cargo/part@1.0.0", "externalReferences": [{ "type": "vcs", "url": "https://example.org" }],
        }, {
            "type": "library", "bom-ref": "pkg:generic/lib%2B%2B@2.1", "name": "lib++", "version": "2.1",
            "licenses": [{ "expression": "Zlib" }], "purl": "pkg:generic/lib%2B%2B@2.1",
            "externalReferences": [{ "type": "vcs", "url": "https://example.org" }],
        }, {
            "type": "library", "bom-ref": "pkg:generic/other", "name": "other", "licenses": [{ "expression": "Zlib" }],
            "purl": "pkg:generic/other", "externalReferences": [{ "type": "vcs", "url": "https://example.org" }],
        }]);
        assert_eq!(document["components"], expected);
        let mut patched = one("part", None, &[]);
        patched.folder = root().join("third_party/part");
        assert_eq!(component(&patched, "library")["pedigree"]["ancestors"][0]["purl"], "pkg:cargo/part@1.0.0");
        let uses = ["pkg:cargo/part@1.0.0", "pkg:generic/lib%2B%2B@2.1", "pkg:generic/other"];
        let edge = json!({ "ref": "pkg:cargo/app@1.0.0", "dependsOn": uses });
        assert_eq!(document["dependencies"][0], edge);
        let serial = document["serialNumber"].as_str().unwrap();
        assert!(serial.len() == 45 && serial.as_bytes()[23] == b'4', "{serial}");
    }
}
