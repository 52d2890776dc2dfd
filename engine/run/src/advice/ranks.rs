//! Ranks that wait for a slow one: [`imbalance`].

use serde_json::Value;

use crate::advice::Finding;
use hearth_recipe::recipe::{Mode, Recipe};

/// Ranks are balanced if their waits differ by less than this share of the run.
const LEAST: f64 = 0.02;

/// Checks the balance of ranks in the `summary.json` of a run. Each rank counts how long it waited
/// for the others, and the one that waits least is the slowest. `None` if no rank is much slower.
///
/// # Errors
/// A summary that is not from a run of several ranks.
pub fn imbalance(summary: &Value, recipe: &Recipe) -> Result<Option<Finding>, String> {
    let waits: Option<Vec<f64>> =
        summary["waits"].as_array().map(|ranks| ranks.iter().filter_map(|rank| rank["seconds"].as_f64()).collect());
    let (seconds, epochs) = (summary["seconds"].as_f64(), summary["epochs"].as_u64());
    let (Some(waits), Some(seconds), Some(epochs)) = (waits, seconds, epochs.filter(|epochs| *epochs > 0)) else {
        return Err("it has no waits of ranks: the run had one process, or was not completed".to_owned());
    };
    let least = waits.iter().copied().fold(f64::INFINITY, f64::min);
    let (Some(slowest), true) = (waits.iter().position(|wait| *wait == least), waits.len() > 1) else {
        return Err("the run had a single rank".to_owned());
    };
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    // Shared out evenly, all would wait as long.
    let won = mean - least;
    if won < LEAST * seconds {
        return Ok(None);
    }
    let each: Vec<String> = waits.iter().map(|wait| format!("{wait:.1}")).collect();
    let evidence = format!(
        "rank {slowest} waited {least:.1} s for the others and {} ranks on average {mean:.1} s ({}), of a run of {seconds:.1} s: \
         the others wait for rank {slowest}",
        waits.len(),
        each.join(", ")
    );
    let deals = recipe.distributed.mode == Mode::Partition;
    let (line, sets) = if deals {
        let line = "mode = \"exact\"        # in [distributed]: each batch is split among the ranks, and no rank keeps the large cases";
        (line.to_owned(), vec!["distributed.mode=exact".to_owned()])
    } else {
        let line = format!("no line: batches are split evenly, so check the machine and the cores of rank {slowest}");
        (line, Vec::new())
    };
    Ok(Some(Finding {
        lever: "balance the ranks",
        evidence,
        line,
        sets,
        seconds: won / epochs as f64,
        same_course: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_recipe::recipe::bundled;
    use serde_json::json;

    #[test]
    fn the_one_that_waits_least_is_the_slowest() {
        let recipe = |set: &str| {
            let mut document = bundled::find("demo").expect("bundled").document().expect("sound");
            document.set(set).expect("a change");
            Recipe::read(&document).expect("sound")
        };
        let waits = |seconds: [f64; 3]| seconds.map(|seconds| json!({ "seconds": seconds })).to_vec();
        let summary = |seconds| json!({ "waits": waits(seconds), "seconds": 100.0, "epochs": 10 });
        let found = imbalance(&summary([20.0, 2.0, 20.0]), &recipe("distributed.mode=partition")).expect("ranks");
        let found = found.expect("rank 1 holds the others up");
        assert!(found.evidence.contains("rank 1") && (found.seconds - 1.2).abs() < 1e-9, "{found:?}");
        assert_eq!(found.sets, ["distributed.mode=exact"]);
        let even = imbalance(&summary([20.0, 2.0, 20.0]), &recipe("distributed.mode=exact")).expect("ranks");
        assert!(even.is_some_and(|found| found.sets.is_empty()), "nothing in the recipe shares out more evenly");
        assert_eq!(imbalance(&summary([20.0, 19.0, 20.5]), &recipe("distributed.mode=exact")), Ok(None));
        assert!(imbalance(&json!({ "seconds": 1.0, "epochs": 1 }), &recipe("distributed.mode=exact")).is_err());
    }
}
