//! Pages of recorded runs: their content, and the handling of damaged folders.

mod html;
mod runs;

use std::fs;
use std::path::Path;

use hearth_report::{Report, ReportError, Run};
use html::{Element, elements};
use runs::data;

fn page_of(folders: &[&Path]) -> String {
    let runs = folders.iter().map(|folder| Run::read(folder).expect("a run")).collect();
    Report::new(runs).expect("runs").html()
}

/// A copy of a recorded run, which a test can damage.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    runs::copy(&data(name), folder.path());
    folder
}

fn texts(all: &[Element], name: &str) -> Vec<String> {
    all.iter().filter(|element| element.name == name).map(|element| element.text.clone()).collect()
}

/// The row heads of the first table whose caption contains these words.
fn rows(page: &str, caption: &str) -> Vec<String> {
    let table =
        page.split("<table").find(|table| table.split("</caption>").next().is_some_and(|c| c.contains(caption)));
    let body = table.and_then(|table| table.split("<tbody>").nth(1)).expect("the table");
    let body = body.split("</tbody>").next().unwrap_or_default();
    let cell = |row: &str| {
        let text = row.split("</th>").next().unwrap_or_default().rsplit("scope=\"row\"").next().unwrap_or_default();
        text.split('>').skip(1).map(|part| part.split('<').next().unwrap_or_default()).collect::<String>()
    };
    body.split("<tr").skip(1).map(cell).collect()
}

#[test]
fn a_completed_run_has_its_verdict_curves_and_cases() {
    let page = page_of(&[&data("demo")]);
    let all = elements(&page);
    let run = Run::read(&data("demo")).expect("a run");
    let (best, epoch) = run.best().expect("a best value");
    let whole = &all[0].text;
    for words in ["completed", "It ran to its end in epoch 50.", &format!("{best:.4}"), &format!("in epoch {epoch}")] {
        assert!(whole.contains(words), "{words}");
    }
    let sections = texts(&all, "h2");
    let expected =
        ["Curves", "Cases, the worst first", "Distribution over cases", "Time", "Recipe", "Environment and files"];
    assert_eq!(sections, expected);
    let charts = texts(&all, "h3");
    for chart in ["Mean dice, the key metric", "Learning rate", "Seconds of each epoch", "mean dice of the cases"] {
        assert!(charts.iter().any(|title| title == chart), "{chart}: {charts:?}");
    }
    let cases = run.cases.as_ref().expect("cases");
    let worst: Vec<&str> = cases.worst_first().iter().map(|row| row.case.as_str()).collect();
    let keys: Vec<f64> = cases.worst_first().iter().filter_map(|row| row.key()).collect();
    assert!(keys.len() == 24 && keys.windows(2).all(|pair| pair[0] <= pair[1]), "{keys:?}");
    assert_eq!(rows(&page, "24 cases of"), worst);
    assert!(page.contains("Best mean dice") && page.contains("Checkpoint after step 500: best, epoch, final"));
    assert_eq!(run.gaps, [""; 0]);
}

#[test]
fn folds_stand_side_by_side() {
    let folders = Run::find(&data("folds"));
    assert_eq!(folders.len(), 2);
    let page = page_of(&[&folders[0], &folders[1]]);
    let all = elements(&page);
    assert_eq!(texts(&all, "h1"), ["spheres: 2 runs"]);
    assert_eq!(rows(&page, "One row for each run"), [" folds/fold0", " folds/fold1"]);
    assert_eq!(rows(&page, "8 cases of 2 runs").len(), 8);
    let whole = &all[0].text;
    assert!(whole.contains("Mean ± standard deviation of 2 runs") && whole.contains("2 completed"), "{whole}");
    // The folds validate on other cases.
    assert_eq!(rows(&page, "of the recipes with different values"), ["data.validation.cases"]);
    let curves = all.iter().filter(|element| element.get("class").contains("curve"));
    let runs: Vec<&str> = curves.map(|curve| curve.get("data-run")).collect();
    assert!(runs.contains(&"0") && runs.contains(&"1"));
    let dashed =
        all.iter().filter(|element| element.name == "path" && element.attributes.contains_key("stroke-dasharray"));
    assert!(dashed.count() > 2, "the second run is dashed");
}

/// Epochs of 90 and 45 seconds, 20 of each: the curves end after 30 and 15 minutes.
#[test]
fn several_runs_are_compared_over_time_too() {
    let folds: Vec<tempfile::TempDir> = [("folds/fold0", 90.0), ("folds/fold1", 45.0)]
        .into_iter()
        .map(|(name, seconds)| {
            let folder = copy(name);
            let log = folder.path().join("log.jsonl");
            let timed = fs::read_to_string(&log).expect("a log").lines().fold(String::new(), |text, line| {
                let mut entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
                if entry["event"] == "epoch" {
                    entry["wall_seconds"] = seconds.into();
                }
                format!("{text}{entry}\n")
            });
            fs::write(log, timed).expect("a log");
            folder
        })
        .collect();
    let page = page_of(&[folds[0].path(), folds[1].path()]);
    let charts = texts(&elements(&page), "h3");
    assert!(charts.iter().any(|title| title == "Mean dice over time"), "{charts:?}");
    let words = texts(&elements(&page), "desc").into_iter().find(|words| words.contains("at minutes"));
    let words = words.expect("a curve over minutes");
    assert!(words.contains("at minutes 30,") && words.contains("at minutes 15,"), "{words}");
    let alone = page_of(&[folds[0].path()]);
    assert!(!alone.contains("over time"), "a single run has the seconds of its epochs");
}

#[test]
fn a_run_that_generates_has_losses_and_no_cases() {
    let page = page_of(&[&data("gan")]);
    let all = elements(&page);
    assert!(all[0].text.contains("No key metric was measured."));
    let charts = texts(&all, "h3");
    assert!(charts.contains(&"G loss".to_owned()) && charts.contains(&"D loss".to_owned()), "{charts:?}");
    assert!(!texts(&all, "h2").contains(&"Cases, the worst first".to_owned()));
}

#[test]
fn interruptions_failures_and_kills_are_said() {
    let page = page_of(&[&data("stopped")]);
    assert!(page.contains("Interrupted after step 76, then resumed"));
    let page = page_of(&[&data("failed")]);
    let all = elements(&page);
    assert!(all[0].text.contains("✗ failed") && all[0].text.contains("not finite"), "{}", all[0].text);
    // The run has no network to measure.
    assert!(!texts(&all, "h2").contains(&"What is missing".to_owned()));
    let run = Run::read(&data("killed")).expect("a run");
    assert!(run.gaps.iter().any(|gap| gap.contains("summary.json") && gap.contains("--resume")), "{:?}", run.gaps);
    let page = page_of(&[&data("killed")]);
    let all = elements(&page);
    assert!(all[0].text.contains("killed") && texts(&all, "h2").contains(&"What is missing".to_owned()));
    assert!(texts(&all, "h3").contains(&"Learning rate".to_owned()));
    assert!(Run::read(&data("stopped")).expect("a run").is_resumed() && !run.is_resumed());
}

#[test]
fn what_is_no_run_says_what_to_give() {
    let error = Run::read(&data("nowhere")).expect_err("no folder").to_string();
    assert!(error.contains("nowhere holds no run") && error.contains("no such folder"), "{error}");
    let error = Run::read(&data("demo/recipe.toml")).expect_err("a file").to_string();
    assert!(error.contains("it is a file"), "{error}");
    let error = Run::read(&data("folds")).expect_err("folds").to_string();
    assert!(error.contains("did you mean") && error.contains("fold0"), "{error}");
    let error = Run::read(&data("demo/checkpoints")).expect_err("no run within").to_string();
    assert!(error.contains("hearth train --out"), "{error}");
    assert!(matches!(Report::new(Vec::new()), Err(ReportError::Nothing)));
}

#[test]
fn damaged_files_cost_their_part_and_are_named() {
    for (file, keep) in [("summary.json", 300), ("run.json", 100), ("evaluation/report.json", 900)] {
        let folder = copy("demo");
        let path = folder.path().join(file);
        let text = fs::read_to_string(&path).expect("the file");
        fs::write(&path, &text[..keep]).expect("cut off");
        let run = Run::read(folder.path()).expect("still a run");
        let gaps: Vec<&String> =
            run.gaps.iter().filter(|gap| gap.contains(file) && gap.contains("was cut off")).collect();
        assert_eq!(gaps.len(), 1, "{file}: {:?}", run.gaps);
        assert!(run.gaps.len() <= 2, "{file} is named twice: {:?}", run.gaps);
        let page = page_of(&[folder.path()]);
        assert!(elements(&page)[0].text.contains(gaps[0].as_str()));
    }
    let folder = copy("demo");
    for name in ["metrics.csv", "log.jsonl"] {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).expect("the file");
        fs::write(&path, &text[..text.len() - 30]).expect("cut off");
    }
    let run = Run::read(folder.path()).expect("still a run");
    assert_eq!(run.epochs.len(), 49);
    for name in ["metrics.csv: 1 line", "log.jsonl: 1 line"] {
        assert!(run.gaps.iter().any(|gap| gap.contains(name)), "{name}: {:?}", run.gaps);
    }
    // Any other content does not stop the report, either.
    for text in
        ["", "[1,2", "null", "\u{0}\u{1}", "{\"metrics\":5,\"cases\":{},\"waits\":[1],\"handlers\":[{}]}", "a,b\n1,2\n"]
    {
        let folder = copy("demo");
        for name in [
            "summary.json",
            "run.json",
            "metrics.csv",
            "log.jsonl",
            "evaluation/report.json",
            "machine.json",
            "machine.csv",
        ] {
            fs::write(folder.path().join(name), text).expect("written");
        }
        elements(&page_of(&[folder.path()]));
    }
}

#[test]
fn runs_of_earlier_versions_lack_files() {
    let folder = copy("demo");
    for name in ["run.json", "summary.json", "log.jsonl"] {
        fs::remove_file(folder.path().join(name)).expect("removed");
    }
    fs::remove_dir_all(folder.path().join("evaluation")).expect("removed");
    let run = Run::read(folder.path()).expect("still a run");
    for words in ["no summary.json", "no run.json", "no log.jsonl", "no values of single cases"] {
        assert!(run.gaps.iter().any(|gap| gap.contains(words)), "{words}: {:?}", run.gaps);
    }
    let all = elements(&page_of(&[folder.path()]));
    assert!(texts(&all, "h3").contains(&"Mean dice".to_owned()));
    // Only the log names the key metric.
    let folder = copy("demo");
    fs::remove_file(folder.path().join("summary.json")).expect("removed");
    let run = Run::read(folder.path()).expect("still a run");
    assert_eq!((run.key_metric(), run.best().map(|best| best.1)), (Some("mean_dice"), Some(50)));
}

#[test]
fn evaluations_confusions_machines_and_origins_are_added() {
    let folder = copy("demo");
    let at = |name: &str| folder.path().join(name);
    let evaluation = at("elsewhere");
    fs::rename(at("evaluation"), &evaluation).expect("moved");
    fs::write(at("scores.csv"), "image,class,cat,dog\na,cat,1,0\nb,dog,0,1\nc,cat,1,0\n").expect("scores");
    fs::write(at("truth.csv"), "image,label\na.png,cat\nb.png,cat\nc.png,cat\n").expect("truth");
    let samples = "part,time_s,unix_time_s,epoch,phase,gpu0_power_w\n1,0,0,1,start,50\n2,9,9,7,training,70\n";
    fs::write(at("machine.csv"), samples).expect("samples");
    let mut run = Run::read(folder.path()).expect("a run");
    assert!(run.cases.is_none() && run.gaps.len() == 1, "{:?}", run.gaps);
    run.cases_from(&evaluation).expect("the report");
    run.confusion_from(&at("scores.csv"), &at("truth.csv"), "label").expect("counted");
    run.bundled = Some(("demo".into(), run.recipe.replace("epochs = 50", "epochs = 40")));
    assert!(run.gaps.is_empty());
    let error = run.cases_from(&at("nothing")).expect_err("no report").to_string();
    assert!(error.contains("hearth evaluate"), "{error}");
    let error = run.cases_from(&at("summary.json")).expect_err("another file").to_string();
    assert!(error.contains("is not a report of `hearth evaluate`"), "{error}");
    let page = Report::new(vec![run]).expect("a run").title("A & B").html();
    let all = elements(&page);
    assert_eq!(texts(&all, "h1"), ["A & B"]);
    for words in ["2 of 3 images are right", "Resumed in epoch 7", "gpu0 power, W", "- epochs = 40", "+ epochs = 50"] {
        assert!(all[0].text.contains(words), "{words}");
    }
}

#[test]
fn runs_of_one_name_are_told_apart() {
    let (first, second) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let runs = [&first, &second].map(|folder| {
        let run = folder.path().join("same");
        fs::create_dir(&run).expect("a folder");
        fs::write(run.join("recipe.toml"), "task = \"x\"\n").expect("a recipe");
        Run::read(&run).expect("a run")
    });
    let report = Report::new(runs.to_vec()).expect("runs");
    assert_ne!(report.runs()[0].name, report.runs()[1].name);
    assert!(report.gaps().count() >= 4);
    elements(&report.html());
}
