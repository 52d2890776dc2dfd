//! The table of a cross-validation: each fold, their mean and deviation, and the pooled cases.

use std::path::Path;

use hearth_files::csv_cell;
use serde_json::{Map, Value, json};

use super::{VALIDATION, folder};
use crate::error::{Context, Outcome};
use crate::folders;
use crate::out;
use crate::run::FoldList;
use crate::table::{Lean, lines};
use crate::terminal::bold;

/// The class name for the mean over the classes.
const MEAN: &str = "mean";

/// One class of one metric.
struct Row {
    metric: String,
    class: String,
    /// The value of each measured fold; NaN if it has no value.
    folds: Vec<f64>,
    /// The values of all cases.
    cases: Vec<f64>,
}

/// Writes `cross_validation.csv`, `cross_validation_cases.csv` and `cross_validation.json` from the
/// results of the folds, and prints the table. Does nothing if no fold was measured.
pub fn write(out: &Path, list: &FoldList) -> Outcome {
    let mut measured: Vec<(usize, Value)> = Vec::new();
    for fold in 0..list.count() {
        let path = folder(out, fold).join(VALIDATION);
        if path.is_file() {
            let doing = || format!("cannot read {}", path.display());
            let text = hearth_files::read_to_string(&path).while_doing(doing)?;
            measured.push((fold, serde_json::from_str(&text).while_doing(doing)?));
        }
    }
    let Some((_, first)) = measured.first() else { return Ok(()) };
    let rows = rows(first, &measured);
    let numbers: Vec<usize> = measured.iter().map(|(fold, _)| *fold).collect();
    let at = |name: &str| out.join(name);
    folders::replace(&at("cross_validation.csv"), csv(&numbers, &rows))?;
    folders::replace(&at("cross_validation_cases.csv"), cases_csv(first, &measured))?;
    let whole = to_json(&numbers, list.count(), &rows, &measured);
    folders::replace(&at("cross_validation.json"), serde_json::to_string_pretty(&whole)? + "\n")?;
    print(out, list.count(), &numbers, &rows);
    Ok(())
}

/// The metrics, the key metric first, with their classes and then the mean over them.
fn shape(found: &Value) -> Vec<(String, Vec<String>)> {
    let key = found["key_metric"].as_str().unwrap_or_default();
    let Some(metrics) = found["metrics"].as_object() else { return Vec::new() };
    let mut names: Vec<&String> = metrics.keys().collect();
    names.sort_by_key(|name| **name != key);
    let classes = |name: &String| {
        let per_class = metrics[name]["per_class"].as_object();
        per_class.map(|classes| classes.keys().cloned().collect()).unwrap_or_default()
    };
    names.into_iter().map(|name| (name.clone(), classes(name))).collect()
}

fn rows(first: &Value, measured: &[(usize, Value)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (metric, classes) in shape(first) {
        for class in classes.iter().map(String::as_str).chain([MEAN]) {
            let of = |one: &Value| value(one, class);
            let folds = measured.iter().map(|(_, found)| of(&found["metrics"][&metric])).collect();
            let pooled = measured.iter().flat_map(|(_, found)| found["cases"].as_array().into_iter().flatten());
            let cases = pooled.map(|case| of(&case["metrics"][&metric])).collect();
            rows.push(Row { metric: metric.clone(), class: class.to_owned(), folds, cases });
        }
    }
    rows
}

/// The value of a class, or the mean; NaN if it is missing.
fn value(one: &Value, class: &str) -> f64 {
    let found = if class == MEAN { &one["value"] } else { &one["per_class"][class] };
    match found {
        Value::String(text) => text.parse().unwrap_or(f64::NAN),
        found => found.as_f64().unwrap_or(f64::NAN),
    }
}

/// Mean and sample standard deviation (n - 1) of the values that are not NaN, and their number. A
/// single value has no deviation.
fn spread(values: &[f64]) -> (f64, f64, usize) {
    let known: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    let count = known.len() as f64;
    let mean = known.iter().sum::<f64>() / count;
    let squares: f64 = known.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = if known.len() < 2 { f64::NAN } else { (squares / (count - 1.0)).sqrt() };
    (mean, deviation, known.len())
}

fn number(value: f64) -> Value {
    if value.is_infinite() { json!(value.to_string()) } else { json!(value) }
}

/// A number in CSV; empty for NaN.
fn text(value: f64) -> String {
    if value.is_nan() { String::new() } else { value.to_string() }
}

fn csv(numbers: &[usize], rows: &[Row]) -> String {
    let heads: String = numbers.iter().map(|fold| format!("fold{fold},")).collect();
    let mut csv = format!("metric,class,{heads}mean,std,pooled_mean,pooled_std,cases\n");
    for row in rows {
        let folds: String = row.folds.iter().map(|value| text(*value) + ",").collect();
        let ((mean, std, _), (pooled, pooled_std, cases)) = (spread(&row.folds), spread(&row.cases));
        let numbers = [mean, std, pooled, pooled_std].map(text).join(",");
        csv += &format!("{},{},{folds}{numbers},{cases}\n", csv_cell(&row.metric), csv_cell(&row.class));
    }
    csv
}

/// All cases, with a line for each metric and class.
fn cases_csv(first: &Value, measured: &[(usize, Value)]) -> String {
    let mut csv = "case,fold,metric,class,value\n".to_owned();
    for (fold, found) in measured {
        for case in found["cases"].as_array().into_iter().flatten() {
            let name = csv_cell(case["case"].as_str().unwrap_or_default());
            for (metric, classes) in shape(first) {
                for class in classes.iter().map(String::as_str).chain([MEAN]) {
                    let value = text(value(&case["metrics"][&metric], class));
                    csv += &format!("{name},{fold},{},{},{value}\n", csv_cell(&metric), csv_cell(class));
                }
            }
        }
    }
    csv
}

fn to_json(numbers: &[usize], count: usize, rows: &[Row], measured: &[(usize, Value)]) -> Value {
    let mut metrics = Map::new();
    for row in rows {
        let ((mean, std, _), (pooled, pooled_std, cases)) = (spread(&row.folds), spread(&row.cases));
        let folds: Vec<Value> = row.folds.iter().map(|value| number(*value)).collect();
        metrics.entry(row.metric.clone()).or_insert_with(|| json!({}))[&row.class] = json!({
            "folds": folds, "mean": number(mean), "std": number(std),
            "pooled": { "mean": number(pooled), "std": number(pooled_std), "cases": cases },
        });
    }
    let of_fold = |(fold, found): &(usize, Value)| {
        let cases = found["cases"].as_array().cloned().unwrap_or_default();
        let with_fold = |mut case: Value| {
            case["fold"] = json!(fold);
            case
        };
        cases.into_iter().map(with_fold).collect::<Vec<Value>>()
    };
    let cases: Vec<Value> = measured.iter().flat_map(of_fold).collect();
    json!({ "folds": count, "measured": numbers, "metrics": metrics, "cases": cases })
}

fn print(out: &Path, count: usize, numbers: &[usize], rows: &[Row]) {
    let cell = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.4}") };
    let with = |mean: f64, std: f64| match std.is_nan() {
        true => cell(mean),
        false => format!("{} ± {}", cell(mean), cell(std)),
    };
    let heads: Vec<String> = numbers.iter().map(|fold| format!("fold {fold}")).collect();
    let mut columns = vec![("metric", Lean::Left), ("class", Lean::Left)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Lean::Right)));
    columns.extend([("folds", Lean::Right), ("cases pooled", Lean::Right)]);
    let line = |row: &Row| {
        let mut cells = vec![row.metric.clone(), row.class.clone()];
        cells.extend(row.folds.iter().map(|value| cell(*value)));
        let ((mean, std, _), (pooled, pooled_std, _)) = (spread(&row.folds), spread(&row.cases));
        cells.extend([with(mean, std), with(pooled, pooled_std)]);
        cells
    };
    let lines = lines(&columns, &rows.iter().map(line).collect::<Vec<_>>());
    for (place, line) in lines.iter().enumerate() {
        out!("{}", if place == 0 { bold(line) } else { line.clone() });
    }
    out!("mean ± standard deviation, over {} of {count} folds, and over their cases", numbers.len());
    out!("{}", out.join("cross_validation.csv").display());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(values: &[Option<f64>]) -> Value {
        let cases: Vec<Value> = values
            .iter()
            .enumerate()
            .map(|(i, v)| json!({ "case": format!("c,{i}"), "metrics": { "dice": { "value": v, "per_class": { "a": v } } } }))
            .collect();
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        json!({ "key_metric": "dice", "metrics": { "dice": { "value": mean, "per_class": { "a": mean } } }, "cases": cases })
    }

    /// numpy: mean([0.5, 0.8]) = 0.65, std(ddof=1) = 0.21213; of the four cases 0.6, 0.4, 0.7, 0.9:
    /// 0.65 and 0.20817.
    #[test]
    fn folds_and_pooled_cases_have_their_mean_and_deviation() {
        let measured = [(0, fold(&[Some(0.6), Some(0.4), None])), (2, fold(&[Some(0.7), Some(0.9)]))];
        let rows = rows(&measured[0].1, &measured);
        assert_eq!(rows.len(), 2);
        let (mean, std, count) = spread(&rows[0].folds);
        assert!((mean - 0.65).abs() < 1e-12 && (std - 0.212_132_034).abs() < 1e-8 && count == 2);
        let (mean, std, count) = spread(&rows[0].cases);
        assert!((mean - 0.65).abs() < 1e-12 && (std - 0.208_166_6).abs() < 1e-7 && count == 4);
        let csv = csv(&[0, 2], &rows);
        assert!(
            csv.starts_with("metric,class,fold0,fold2,mean,std,pooled_mean,pooled_std,cases\ndice,a,0.5,0.8,"),
            "{csv}"
        );
        let cases = cases_csv(&measured[0].1, &measured);
        assert!(cases.contains("\"c,2\",0,dice,a,\n") && cases.contains("\"c,1\",2,dice,mean,0.9\n"), "{cases}");
        let json = to_json(&[0, 2], 3, &rows, &measured);
        assert_eq!(json["metrics"]["dice"]["a"]["pooled"]["cases"], 4);
        assert_eq!(json["cases"][4]["fold"], 2);
    }

    #[test]
    fn a_single_fold_has_no_deviation() {
        assert!(spread(&[0.5]).1.is_nan() && spread(&[]).0.is_nan());
    }
}
