//! MONAI's names: the page `docs/from-monai.md`, recipes, and `hearth reference NAME`.
//!
//! `monai_names.txt` holds the names, from MONAI's own files.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use hearth_apps::recipe::{Document, Recipe};
use hearth_registry::{Described, Foreign, Here, described, explained};

use crate::common::{TINY, fail, succeed};

const NAMES: &str = include_str!("../monai_names.txt");

/// Where the names begin on the page.
const HEADING: &str = "## Names\n";

/// The kinds of entries that the classes of a package are.
const KINDS: [(&str, &[&str]); 9] = [
    ("monai.transforms", &["transform", "post-processing step"]),
    ("monai.losses", &["loss"]),
    ("monai.metrics", &["metric"]),
    ("monai.networks.nets", &["network"]),
    ("monai.networks.schedulers", &["noise scheduler"]),
    ("monai.inferers", &["inferer"]),
    ("monai.optimizers", &["optimizer", "schedule"]),
    ("monai.data", &["cache", "reader", "sampler"]),
    ("monai.apps", &["transform"]),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Each package with its classes, in the order of the file; a dictionary transform only if there is no
/// other form.
fn packages() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in NAMES.lines().filter(|line| !line.starts_with('#')) {
        let (package, name) = line.rsplit_once('.').expect("a dotted name");
        if found.last().is_none_or(|(last, _)| *last != package) {
            found.push((package, Vec::new()));
        }
        let names = &mut found.last_mut().expect("a package").1;
        if !name.strip_suffix('d').is_some_and(|base| names.contains(&base)) {
            names.push(name);
        }
    }
    found
}

/// What a class is here, in the words of the page; `None` if nothing says so.
fn counterpart(package: &str, name: &str, entries: &[Described]) -> Option<String> {
    let rows: Vec<Foreign> = Foreign::all().filter(|row| row.module == package && row.is_called(name)).collect();
    let (begins, exact): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| row.names.iter().all(|known| known.ends_with('*')));
    let kinds = KINDS.iter().find(|(known, _)| package == *known || package.starts_with(&format!("{known}.")));
    let kinds = kinds.map_or(&[][..], |(_, kinds)| kinds);
    let entry = entries.iter().find(|entry| {
        kinds.contains(&entry.kind) && std::iter::once(&entry.name).chain(entry.aliases).any(|known| *known == name)
    });
    match (exact.first(), entry, begins.first()) {
        (Some(row), ..) | (None, None, Some(row)) => Some(match (row.here.name(), row.is_near) {
            (Some(here), false) => format!("`{here}`, {}", row.here),
            (Some(here), true) => format!("no counterpart: the nearest is `{here}`, {}", row.here),
            (None, _) => format!("no counterpart: {}", row.here),
        }),
        (None, Some(entry), _) if entry.name == name => Some("the same".to_owned()),
        (None, Some(entry), _) => Some(format!("the same; also `{}`", entry.name)),
        (None, None, None) => None,
    }
}

/// The part of the page below [`HEADING`].
fn made() -> String {
    let entries = described();
    let mut page = format!(
        "{HEADING}\nThe public classes of MONAI 1.6. A recipe accepts the names that are the same, also as `LoadImaged`,\n\
         `LoadImageD`, `LoadImageDict` and `monai.transforms.LoadImaged`; for any other name it answers as this\n\
         table. `hearth reference NAME` finds a name in all kinds, and answers for MONAI's. A test keeps this part\n\
         equal to the code.\n"
    );
    for (package, names) in packages() {
        let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
        for name in names {
            let base = name.strip_suffix('d').and_then(|base| Some((base, counterpart(package, base, &entries)?)));
            let found = counterpart(package, name, &entries).map(|here| (name, here)).or(base);
            let (name, here) = found
                .unwrap_or_else(|| panic!("{package}.{name} has neither an entry nor a row in registry/src/monai.txt"));
            match rows.iter_mut().find(|(known, _)| *known == here) {
                Some((_, names)) => names.push(name),
                None => rows.push((here, vec![name])),
            }
        }
        // What is the same comes first, what is missing last.
        rows.sort_by_key(|(here, _)| (!here.starts_with("the same"), here.starts_with("no counterpart")));
        let _ = write!(page, "\n### {package}\n\n| MONAI | Hearth |\n|---|---|\n");
        for (here, names) in rows {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(page, "| {} | {here} |", names.join(", "));
        }
    }
    page
}

#[test]
fn the_page_has_every_public_class_of_monai() {
    let path = repository().join("docs/from-monai.md");
    let mut written = std::fs::read_to_string(&path).expect("the page");
    let made = made();
    let start_of = |page: &str| page.find(HEADING).unwrap_or(page.len());
    if std::env::var_os("HEARTH_RECORD").is_some() {
        written = format!("{}\n\n{made}", written[..start_of(&written)].trim_end());
        std::fs::write(&path, &written).expect("the page");
    }
    let start = start_of(&written);
    let first = written[start..].lines().zip(made.lines()).find(|(a, b)| a != b);
    assert!(written[start..] == made, "record it again with HEARTH_RECORD=1\n{first:?}");
    // Independently of how the page is made.
    for line in NAMES.lines().filter(|line| !line.starts_with('#')) {
        let (package, name) = line.rsplit_once('.').expect("a dotted name");
        let section = written.split(&format!("\n### {package}\n")).nth(1).expect(package);
        let section = section.split("\n### ").next().unwrap_or_default();
        let base = name.strip_suffix('d').unwrap_or(name);
        let is_there = |name: &str| section.contains(&format!("`{name}`"));
        assert!(is_there(name) || is_there(base), "{line}");
    }
}

#[test]
fn every_counterpart_exists() {
    let entries = described();
    let recipes = std::fs::read_to_string(repository().join("docs/recipes.md")).expect("a page");
    let mut sources = String::new();
    for folder in ["core", "data", "datasets", "image", "io", "nn", "slides", "train", "transforms"] {
        read_all(&repository().join("engine").join(folder).join("src"), &mut sources);
    }
    for row in Foreign::all() {
        let what = format!("{} {:?}", row.module, row.names);
        match row.here {
            Here::Entry(kind, name) => {
                assert!(entries.iter().any(|entry| (entry.kind, entry.name) == (kind, name)), "{what}: {kind} {name}");
            }
            Here::Plugin(name) => assert!(succeed(&["plugin", "info", name]).contains(name), "{what}"),
            Here::Command(name) => {
                let words: Vec<&str> = name.split(' ').chain(["--help"]).collect();
                assert!(succeed(&words).contains(&format!("Usage: hearth {name}")), "{what}");
            }
            Here::Recipe(key) => {
                let key = key.rsplit('.').next().unwrap_or(key);
                assert!(recipes.contains(key), "{what}: docs/recipes.md has no {key}");
            }
            Here::Library(name) => {
                let items = ["struct", "enum", "fn", "trait", "type"];
                let is_defined = |item: &str| {
                    let start = format!("pub {item} {name}");
                    sources.match_indices(&start).any(|(place, _)| {
                        !sources[place + start.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
                    })
                };
                assert!(items.iter().any(|item| is_defined(item)), "{what}: no {name} is public");
            }
            Here::Nothing(reason) => assert!(reason.split(' ').count() > 3, "{what}: {reason}"),
        }
    }
}

fn read_all(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_all(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// A dry run of a small recipe with changes.
fn dry<'a>(folder: &'a Path, sets: &[&'a str]) -> Vec<String> {
    let recipe = folder.join("tiny.toml");
    std::fs::write(&recipe, TINY).expect("a recipe");
    let data = folder.join("nowhere");
    let mut words = vec!["train".to_owned(), recipe.display().to_string(), "--dry-run".to_owned()];
    words.extend(["--data".to_owned(), data.display().to_string()]);
    words.extend(["--out".to_owned(), folder.join("run").display().to_string()]);
    for set in sets {
        words.extend(["--set".to_owned(), (*set).to_owned()]);
    }
    words
}

#[test]
fn recipes_answer_for_names_of_monai_in_every_place() {
    let folder = tempfile::tempdir().expect("a folder");
    for (set, answer) in [
        ("handlers=[{name=\"StatsHandler\"}]", "MONAI's StatsHandler is called stats here: a plugin, in [[plugins]]"),
        ("handlers=[{name=\"EarlyStopHandler\"}]", "called EarlyStop here: a handler, in [[handlers]]"),
        ("handlers=[{name=\"LrScheduleHandler\"}]", "called LrSchedule here"),
        ("handlers=[{name=\"TensorBoardStatsHandler\"}]", "called TensorBoardStats here"),
        ("handlers=[{name=\"CheckpointSaver\"}]", "called checkpoint here: a plugin"),
        ("plugins=[{name=\"CheckpointSaver\"}]", "called checkpoint here: a plugin"),
        ("plugins=[{name=\"EarlyStop\"}]", "EarlyStop is a handler, in [[handlers]]"),
        ("transforms.0.reader=ITKReader", "MONAI's ITKReader is called MetaImageReader here: a reader"),
        ("handlers=[{name=\"ValidationHandler\"}]", "called validation here: a plugin"),
        ("handlers=[{name=\"MeanDice\"}]", "DiceMetric is a metric, in [metric.NAME]"),
        ("task={name=\"Auto3DSeg\"}", "called hearth plan here: a command"),
        ("metric.d.name=HausdorffDistance", "called HausdorffDistanceMetric here"),
        ("metric.d.name=ROCAUC", "called ROCAUCMetric here"),
        ("optimizer.name=torch.optim.NAdam", "PyTorch's NAdam has no counterpart here"),
        ("schedule={name=\"LambdaLR\"}", "PyTorch's LambdaLR has no counterpart here"),
        ("schedule={name=\"ReduceLROnPlateau\"}", "ReduceLROnPlateau is a handler, in [[handlers]]"),
        ("inferer.name=SlidingWindowInfererAdapt", "called SlidingWindowInferer here"),
        ("loss.name=NACLLoss", "MONAI's NACLLoss has no counterpart here"),
        ("network.name=HoVerNet", "MONAI's HoVerNet has no counterpart here"),
        ("data.cache={kind=\"CacheNTransDataset\"}", "called CacheNTransDataset here: an item of the library"),
        ("data.layout={name=\"DecathlonDataset\"}", "called Decathlon here: a layout, in [data.layout]"),
        ("data.sampler={name=\"DistributedSampler\"}", "an item of the library"),
        ("transforms.0.name=AsDiscreted", "AsDiscrete is a post-processing step, in [post]"),
        ("transforms.0.name=AddChanneld", "called EnsureChannelFirst here: a transform"),
        ("transforms.0.name=Lambdad", "a recipe holds no code"),
        ("post.prediction=[{name=\"MeanEnsembled\"}]", "called mean_ensemble here"),
    ] {
        let words = dry(folder.path(), &[set]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        fail(&words, 1, &[answer]);
    }
}

/// They are the same entries, and the recipe that a run records has their own names.
#[test]
fn other_spellings_of_monai_are_the_same_entries() {
    let resolved = |set: &str| {
        let mut document = Document::parse("tiny.toml", TINY).expect("TOML");
        document.set(set).unwrap_or_else(|fault| panic!("{set}: {fault}"));
        let recipe = Recipe::read(&document).unwrap_or_else(|fault| panic!("{set}: {fault}"));
        recipe.to_toml().expect("TOML")
    };
    for (set, own) in [
        ("transforms.0.name=NAME", "LoadImage"),
        ("post.prediction=[{ name = \"NAME\", argmax = true }]", "AsDiscrete"),
        ("post.label=[{ name = \"NAME\" }]", "KeepLargestConnectedComponent"),
        ("tta.transforms=[{ name = \"NAME\", prob = 0.5 }]", "RandFlip"),
    ] {
        let with = |name: &str| resolved(&set.replace("NAME", name));
        let wanted = with(own);
        assert!(wanted.contains(&format!("name = \"{own}\"")), "{wanted}");
        for other in ["d", "D", "Dict"].map(|ending| format!("{own}{ending}")) {
            assert_eq!(with(&other), wanted, "{other}");
            assert_eq!(with(&format!("monai.transforms.{other}")), wanted, "{other}");
        }
    }
}

#[test]
fn the_reference_finds_a_name_in_all_kinds() {
    for (name, words) in [
        ("Spacing", ["Spacing  transform", "pixdim"]),
        ("Spacingd", ["Spacing  transform", "pixdim"]),
        ("monai.transforms.SpacingDict", ["Spacing  transform", "pixdim"]),
        ("DiceLoss", ["DiceLoss  loss", "squared_pred"]),
        ("MeanDice", ["DiceMetric  metric", "include_background"]),
        ("AsDiscreted", ["AsDiscrete  post-processing step", "argmax"]),
        ("CacheDataset", ["cache  cache", "rate"]),
        ("torch.optim.AdamW", ["AdamW  optimizer", "weight_decay"]),
        ("StatsHandler", ["MONAI's StatsHandler is called stats here", "a plugin"]),
        ("Auto3DSeg", ["MONAI's Auto3DSeg is called hearth plan here", "a command"]),
        ("HoVerNet", ["MONAI's HoVerNet has no counterpart here", "not ported"]),
        ("stats", ["stats is a plugin", "hearth plugin info stats"]),
    ] {
        let said = succeed(&["reference", name]);
        assert!(words.iter().all(|word| said.contains(word)), "{name}: {said}");
    }
    let said = succeed(&["reference", "UNet", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&said).expect("JSON")["kind"], "network");
    fail(&["reference", "Elephantt"], 1, &["unknown kind or name \"Elephantt\"", "hearth reference lists the kinds"]);
    fail(&["reference", "Spacng"], 1, &["did you mean \"Spacing\"?"]);
    fail(
        &["reference", "losses", "StatsHandler"],
        1,
        &["unknown loss \"StatsHandler\": MONAI's StatsHandler is called"],
    );
    fail(&["reference", "Spacing", "pixdim"], 1, &["unknown kind \"Spacing\""]);
}

/// No name of the table hides an entry: what is known is never explained as something else.
#[test]
fn explanations_are_for_names_that_are_unknown() {
    let mut wrong = BTreeMap::new();
    for entry in described() {
        let row = Foreign::all().find(|row| row.names.contains(&entry.name) && row.module.starts_with("monai."));
        let Some(row) = row else { continue };
        if let (Here::Nothing(_), Some(said)) = (row.here, explained("", entry.name))
            && said.contains("no counterpart")
        {
            wrong.insert(entry.name, said);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
