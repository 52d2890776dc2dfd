//! Pages are read by other programs: Python's parsers of HTML and XML.

#[path = "../../../tests/clients.rs"]
mod clients;
mod html;
mod runs;

use std::fs;
use std::path::{Path, PathBuf};

use hearth_report::{Report, Run};

/// Recorded runs, and the file with Python's output for their page.
const PAGES: [(&[&str], &str); 2] = [
    (&["demo"], "outline_one.txt"),
    (&["folds/fold0", "folds/fold1", "stopped", "killed", "failed"], "outline_several.txt"),
];

fn at(inner: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(inner)
}

fn page(names: &[&str]) -> String {
    let runs = names.iter().map(|name| Run::read(&runs::data(name)).expect("a run")).collect();
    Report::new(runs).expect("runs").html()
}

/// Python's output without its version, which is in the first line.
fn outline_of(said: &str) -> &str {
    said.split_once('\n').map_or("", |(_, outline)| outline)
}

#[test]
fn live_python_reads_pages() {
    let Some(client) = clients::find(&["html.parser", "xml.etree.ElementTree"], "pages_are_what_python_read") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let script = fs::read_to_string(at("recorded/outline.py")).expect("the script");
    for (names, record) in PAGES {
        let (page, file) = (page(names), folder.path().join("page.html"));
        fs::write(&file, &page).expect("written");
        let said = client.run(&script, [&file]);
        assert!(
            outline_of(&said) == html::outline(&html::elements(&page)),
            "{record}: Python reads another page:\n{said}"
        );
        if clients::recording() {
            fs::write(at("recorded").join(record), said).expect("recorded");
        }
    }
}

#[test]
fn pages_are_what_python_read() {
    for (names, record) in PAGES {
        let said = fs::read_to_string(at("recorded").join(record)).unwrap_or_default();
        let outline = html::outline(&html::elements(&page(names)));
        let said = outline_of(&said);
        let differs = outline.lines().zip(said.lines()).find(|(ours, theirs)| ours != theirs);
        let how = clients::how_to_record("hearth-report");
        assert!(outline == said, "{record}: the page is another one now, first {differs:?}. {how}");
    }
}
