//! A page is safe to open and to send: names never become markup, nothing is fetched, it stays small,
//! and it is usable without seeing, colours or a mouse.

mod html;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use hearth_pictures::Canvas;
use hearth_report::{Board, Overlay, Remark, Report, Run, Volume, live, overlays_in};
use html::{Element, elements};
use serde_json::{Map, Value, json};

/// Names that a case, a class or a metric may have.
const NAMES: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "it's & \"that\" </title></style>",
    "脾臓 – étude 🫀",
    "a,b;c\td",
    "control \u{1}\u{7f}\u{85} characters",
    "https://example.org/x.png",
];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A run with these cases and classes, regardless of their names.
fn run_of(folder: &Path, cases: &[String], classes: &[&str]) -> Run {
    let value = |case: usize, class: usize| ((case * 37 + class * 11) % 100) as f64 / 100.0;
    let per_class = |case: usize| -> Map<String, Value> {
        classes.iter().enumerate().map(|(class, name)| ((*name).to_owned(), json!(value(case, class)))).collect()
    };
    let metrics = ["dice", "hd95", classes[0]];
    let of = |case: usize| -> Map<String, Value> {
        metrics
            .iter()
            .map(|m| ((*m).to_owned(), json!({ "value": value(case, 9), "per_class": per_class(case) })))
            .collect()
    };
    let rows: Vec<Value> =
        cases.iter().enumerate().map(|(n, case)| json!({ "case": case, "metrics": of(n) })).collect();
    let report = json!({ "key_metric": "dice", "metrics": of(0), "cases": rows, "measured": classes[0], "checkpoint": classes[1 % classes.len()] });
    let summary = json!({
        "hearth": classes[0], "task": classes[0], "outcome": "terminated", "why": classes[0], "device": classes[0],
        "key_metric": "dice", "better": "higher", "best_metric": 0.5, "best_epoch": 2, "seconds": 3.0,
        "handlers": [{ "engine": classes[0], "name": classes[0], "calls": 1, "seconds": 1.0, "errors": 1, "first_error": classes[0] }],
        "event_seconds": { classes[0]: 1.0 },
    });
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("written");
    write("validation.json", report.to_string());
    write("summary.json", summary.to_string());
    write(
        "run.json",
        json!({ "recipe": classes[0], "data": classes[0], "training": cases, "validation": classes }).to_string(),
    );
    write("recipe.toml", format!("task = {}\n", toml::Value::String(classes[0].to_owned())));
    let log: Vec<String> = (1..=3)
        .map(|epoch| {
            json!({ "event": "epoch", "epoch": epoch, "iteration": epoch, "metrics": { classes[0]: 0.5, "dice": 0.1 } })
                .to_string()
        })
        .collect();
    write("log.jsonl", log.join("\n") + "\n");
    Run::read(folder).expect("a run")
}

fn picture(width: usize, height: usize, seed: usize) -> Vec<u8> {
    let mut canvas = Canvas::new(width, height, [20, 20, 24]);
    for at in 0..height {
        canvas.text(at * 31 % width, at, 9.0, [(at * seed % 250) as u8, 120, 90], "organ");
    }
    canvas.png().expect("a picture")
}

#[test]
fn names_stay_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = NAMES.map(String::from);
    let runs = vec![run_of(folder.path(), &cases, &NAMES)];
    let png = picture(40, 30, 1);
    let overlays = NAMES.map(|name| Overlay { run: 0, case: name.into(), png: png.clone(), caption: name.into() });
    let report = Report::new(runs).expect("a run").title(NAMES[0]).overlays(overlays.to_vec()).expect("of the run");
    let volumes = NAMES.map(|name| Volume {
        run: 0,
        case: name.into(),
        size: [3, 4, 5],
        spacing: [1.0, 1.0, 2.5],
        values: (0..60).map(|value| value as f32).collect(),
        window: [0.0, 50.0],
        layers: vec![(name.into(), vec![1; 60])],
        classes: vec!["background".into(), name.into()],
    });
    let remarks = NAMES.map(|name| Remark { run: 0, case: Some(name.into()), text: format!("remark {name}") });
    let report = report.remarks(remarks.to_vec()).expect("of the run");
    let shown = report.json()["runs"][0]["remarks"].clone();
    let page = report.volumes(volumes.to_vec()).expect("of the run").html();
    let all = elements(&page);
    let cells: Vec<&str> = all.iter().filter(|e| e.name == "td").map(|e| e.text.as_str()).collect();
    let plain = |name: &str| name.replace(['\u{1}', '\u{7f}', '\u{85}'], "\u{fffd}");
    let heads: Vec<&str> = all.iter().filter(|e| e.name == "th").map(|e| e.text.as_str()).collect();
    for name in NAMES {
        assert!(heads.contains(&plain(name).as_str()), "{name:?} is not a case of the table");
        let remark = format!("remark {name}");
        assert!(cells.contains(&plain(&remark).as_str()), "{remark:?} is not in the table");
        assert!(shown.as_array().is_some_and(|all| all.iter().any(|one| one["remark"] == remark.as_str())));
    }
    let alts: BTreeSet<&str> = all.iter().filter(|e| e.name == "img").map(|e| e.get("alt")).collect();
    assert_eq!(alts.len(), NAMES.len());
    assert_eq!(all.iter().filter(|element| element.name == "script").count(), 1);
    assert!(all.iter().all(|element| element.attributes.keys().all(|name| !name.starts_with("on"))));
    drawings_are_xml(&page);
    accessible(&all);
    nothing_is_fetched(&all);
}

#[test]
fn recorded_pages_are_sound() {
    for names in [&["demo"][..], &["folds/fold0", "folds/fold1"], &["gan"], &["stopped", "failed", "killed", "demo"]] {
        let runs = names.iter().map(|name| Run::read(&data(name)).expect("a run")).collect();
        let page = Report::new(runs).expect("runs").html();
        let all = elements(&page);
        drawings_are_xml(&page);
        accessible(&all);
        nothing_is_fetched(&all);
        assert!(page.len() < 600_000, "{names:?}: {} bytes", page.len());
    }
}

#[test]
fn pages_of_runs_that_go_on_are_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut runs = vec![run_of(folder.path(), &NAMES.map(String::from), &NAMES)];
    let warning = json!({ "unix_time": 1.0, "level": "warn", "message": NAMES[0] }).to_string();
    fs::write(folder.path().join("warnings.jsonl"), warning + "\n").expect("written");
    runs.push(Run::read(folder.path()).expect("a run"));
    runs.extend(["demo", "gan", "killed", "failed", "stopped"].map(|name| Run::read(&data(name)).expect("a run")));
    runs.iter_mut().for_each(|run| run.name = format!("{}{}", run.name, NAMES[1]));
    let board = Board::new(&runs);
    let mut pages: Vec<String> = runs.iter().map(|run| live::run(run, "7")).collect();
    pages.push(live::board(NAMES[2], &board, "8"));
    assert!(pages[1].contains("&lt;script&gt;alert(1)&lt;/script&gt;") && pages[1].contains("<h2 id=\"warnings-h\">"));
    for page in &pages {
        let all = elements(page);
        // A run that failed immediately has no curve.
        if page.contains("<svg role=") {
            drawings_are_xml(page);
        }
        accessible(&all);
        assert_eq!(all.iter().filter(|element| element.name == "script").count(), 1);
        assert!(all.iter().all(|element| element.attributes.keys().all(|name| !name.starts_with("on"))));
        assert!(!all.iter().any(|element| element.attributes.contains_key("src")));
        let policy = all.iter().find(|element| element.get("http-equiv") == "Content-Security-Policy").expect("one");
        assert!(
            policy.get("content").contains("default-src 'none'")
                && policy.get("content").contains("connect-src 'self'")
        );
    }
    let words = ["it ended <b>", "waits"];
    words.iter().for_each(|text| accessible(&elements(&live::note(NAMES[1], text, "9"))));
    // The version that the script sends.
    let body = elements(&pages[0]).into_iter().find(|element| element.name == "body").expect("a body");
    assert_eq!(body.get("data-version"), "7");
}

#[test]
fn a_hundred_cases_with_pictures_take_less_than_five_megabytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases: Vec<String> = (0..100).map(|case| format!("case_{case:03}")).collect();
    let run = run_of(folder.path(), &cases, &["liver", "tumour", "spleen"]);
    let drawn = tempfile::tempdir().expect("a folder");
    let mut sum = 0;
    for (place, case) in cases.iter().enumerate() {
        let png = picture(900, 700, place + 3);
        sum += png.len();
        fs::write(drawn.path().join(format!("{case}_picture.png")), png).expect("written");
    }
    assert!(sum > 6_000_000, "the pictures are too easy: {sum} bytes");
    let overlays = overlays_in(drawn.path(), 0).expect("pictures");
    assert_eq!((overlays.len(), overlays[7].case.as_str()), (100, "case_007"));
    let page = Report::new(vec![run]).expect("a run").overlays(overlays).expect("of the run").html();
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    let all = elements(&page);
    assert_eq!(all.iter().filter(|element| element.name == "img").count(), 100);
    // Each case leads to its picture.
    let links = all.iter().filter(|element| element.get("href").starts_with("#picture-")).count();
    assert_eq!(links, 100);
}

#[test]
fn a_picture_of_no_run_is_an_error() {
    let report = Report::new(vec![Run::read(&data("demo")).expect("a run")]).expect("a run");
    let overlay = Overlay { run: 1, case: "a".into(), png: Vec::new(), caption: String::new() };
    let error = report.overlays(vec![overlay]).expect_err("no such run").to_string();
    assert!(error.contains("of run 1") && error.contains("has 1"), "{error}");
}

/// Every drawing is well-formed XML, and has the title and description that it refers to.
fn drawings_are_xml(page: &str) {
    let mut count = 0;
    for part in page.split("<svg").skip(1) {
        let svg = format!("<svg{}</svg>", part.split("</svg>").next().unwrap_or_default());
        let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        let root = document.root_element();
        if root.attribute("aria-hidden") == Some("true") {
            continue;
        }
        count += 1;
        let labels = root.attribute("aria-labelledby").expect("a label").split(' ').collect::<Vec<_>>();
        for (name, id) in ["title", "desc"].iter().zip(labels) {
            let found = root.children().find(|child| child.has_tag_name(*name)).expect("a title and a description");
            assert_eq!(found.attribute("id"), Some(id));
            assert!(found.text().is_some_and(|text| !text.trim().is_empty()), "{id} says nothing");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
    assert!(count > 0);
}

fn accessible(all: &[Element]) {
    let count = |name: &str| all.iter().filter(|element| element.name == name).count();
    for (name, expected) in [("h1", 1), ("main", 1), ("nav", 1), ("header", 1), ("footer", 1), ("title", 1)] {
        let found = match name {
            // Drawings have titles, too.
            "title" => all.iter().filter(|e| e.name == "title" && e.around.last().is_some_and(|a| a == "head")).count(),
            name => count(name),
        };
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(count("table"), count("caption"));
    assert!(all.iter().filter(|e| e.name == "th").all(|e| ["row", "col", "colgroup"].contains(&e.get("scope"))));
    assert!(all.iter().filter(|e| e.name == "img").all(|e| !e.get("alt").is_empty()));
    assert!(all.iter().filter(|e| e.name == "nav").all(|e| !e.get("aria-label").is_empty()));
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    for element in all.iter().filter(|element| element.attributes.contains_key("id")) {
        *ids.entry(element.get("id")).or_default() += 1;
    }
    let twice: Vec<&&str> = ids.iter().filter(|(_, count)| **count > 1).map(|(id, _)| id).collect();
    assert!(twice.is_empty(), "ids that stand twice: {twice:?}");
    for element in all {
        for id in element.get("aria-labelledby").split_whitespace() {
            assert!(ids.contains_key(id), "{id} labels <{}> and is not there", element.name);
        }
        if let Some(id) = element.get("href").strip_prefix('#') {
            assert!(ids.contains_key(id), "a link to {id}, which is not there");
        }
    }
    let mut level = 0;
    for heading in all.iter().filter(|e| e.name.len() == 2 && e.name.starts_with('h') && e.name != "hr") {
        let next = heading.name[1..].parse::<usize>().expect("a level");
        assert!(next <= level + 1, "{} follows a heading of level {level}: {}", heading.name, heading.text);
        assert!(!heading.text.trim().is_empty());
        level = next;
    }
}

fn nothing_is_fetched(all: &[Element]) {
    for element in all {
        for name in ["src", "href", "srcset", "data", "action", "poster", "background"] {
            let target = element.get(name);
            let inside = target.is_empty() || target.starts_with('#') || target.starts_with("data:image/");
            assert!(inside, "<{} {name}={target:?}>", element.name);
        }
        assert!(!["link", "iframe", "object", "embed", "base", "form"].contains(&element.name.as_str()));
        let style = if element.name == "style" { element.text.as_str() } else { element.get("style") };
        for word in ["url(", "@import", "expression("] {
            assert!(!style.contains(word), "{word} in a style");
        }
        if element.name == "script" {
            for word in ["fetch", "XMLHttpRequest", "import ", "innerHTML", "eval(", "://"] {
                assert!(!element.text.contains(word), "{word} in the script");
            }
        }
    }
    let policy = all.iter().find(|element| element.get("http-equiv") == "Content-Security-Policy").expect("a policy");
    assert!(policy.get("content").starts_with("default-src 'none'"));
}
