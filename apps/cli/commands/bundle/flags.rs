//! The arguments of `python -m monai.bundle run`: options, and overrides by id.

use std::path::{Path, PathBuf};

use hearth_models::bundle::RunOptions;

use crate::error::{Context, Failure, Outcome};

/// The parsed arguments.
#[derive(Debug, Default)]
pub struct Flags {
    /// The bundle's folder or zip.
    pub bundle: PathBuf,
    /// The options for the run.
    pub options: RunOptions,
    /// Whether the report is JSON.
    pub json: bool,
    /// The file with defaults for these flags.
    args_file: Option<PathBuf>,
}

/// Parses the arguments. An argument that starts with `--` and is not a known option sets the item of
/// that id.
///
/// # Errors
/// An option without its value; a missing bundle, or too many arguments.
pub fn read(words: &[String]) -> Outcome<Flags> {
    let mut flags = Flags::default();
    let mut places: Vec<&str> = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        if word == "-i" || word == "--images" {
            while let Some(image) = rest.next_if(|next| !next.starts_with('-')) {
                flags.options.images.push(absolute(image));
            }
            continue;
        }
        let long = match word.as_str() {
            "-o" => Some("out"),
            word => word.strip_prefix("--"),
        };
        let Some(long) = long.filter(|long| !long.is_empty()) else {
            places.push(word);
            continue;
        };
        let (name, given) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        match name {
            "random-weights" | "random_weights" => {
                flags.options.random_weights = given.is_none_or(|given| given != "false");
            }
            "overwrite" => flags.options.overwrite = given.is_none_or(|given| given != "false"),
            "json" => flags.json = true,
            _ => {
                let value = given.or_else(|| rest.next().cloned());
                let value = value.ok_or_else(|| Failure::new(format!("--{name} needs a value")))?;
                flags.set(name, value)?;
            }
        }
    }
    let (run_id, bundle) = match places[..] {
        [bundle] => (None, bundle),
        [first, second] if Path::new(first).exists() && !Path::new(second).exists() => (Some(second), first),
        [first, second] => (Some(first), second),
        [] => return Err(Failure::new("give the folder of a bundle, or its zip")),
        _ => return Err(Failure::new(format!("expected [RUN_ID] BUNDLE, not {}", places.join(" ")))),
    };
    flags.bundle = bundle.into();
    if let Some(id) = run_id {
        flags.options.run_id = Some(id.to_owned());
    }
    if let Some(file) = flags.args_file.clone() {
        flags.defaults(&file)?;
    }
    Ok(flags)
}

impl Flags {
    fn set(&mut self, name: &str, value: String) -> Outcome {
        let options = &mut self.options;
        match name {
            "config-file" | "config_file" => options.config_files.extend(list(&value)),
            "run_id" | "run-id" => options.run_id = Some(value),
            "init_id" | "init-id" => options.init_id = value,
            "final_id" | "final-id" => options.final_id = value,
            "args_file" | "args-file" => self.args_file = Some(value.into()),
            "out" => options.results = Some(value.into()),
            "meta_file" | "meta-file" | "logging_file" | "logging-file" | "tracking" => {
                crate::note!("--{name} changes no result, and is not read");
            }
            id => options.overrides.push((id.to_owned(), from_here(&value))),
        }
        Ok(())
    }

    /// Applies the file of defaults to flags that are not given.
    fn defaults(&mut self, file: &Path) -> Outcome {
        let doing = || format!("cannot read {}", file.display());
        let text = hearth_files::read_to_string(file).while_doing(doing)?;
        let table: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).while_doing(doing)?;
        let given = std::mem::take(&mut self.options.overrides);
        let files = std::mem::take(&mut self.options.config_files);
        for (name, value) in table {
            let value = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Bool(true) => "True".to_owned(),
                serde_json::Value::Bool(false) => "False".to_owned(),
                serde_json::Value::Null => continue,
                other => other.to_string(),
            };
            self.set(&name, value)?;
        }
        self.options.overrides.extend(given);
        if !files.is_empty() {
            self.options.config_files = files;
        }
        Ok(())
    }
}

/// Parses one file, several with commas, or a list in Python syntax.
fn list(text: &str) -> Vec<String> {
    if Path::new(text).is_file() {
        return vec![text.to_owned()];
    }
    let inner = text.trim().trim_start_matches(['[', '(']).trim_end_matches([']', ')']);
    let parts = inner.split(',').map(|part| part.trim().trim_matches(['\'', '"']).to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

/// A path that the user gave, relative to the working directory and not to the bundle.
fn from_here(value: &str) -> String {
    let is_path = value.contains('/') || value.contains('.');
    let plain = !value.starts_with(['@', '$', '%', '[', '{', '(', '/']);
    if is_path && plain && value.parse::<f64>().is_err() && Path::new(value).exists() {
        absolute(value)
    } else {
        value.to_owned()
    }
}

pub fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_words_of_monai_are_read() {
        let line = "inferring DIR --config_file ['a.json','b.json'] --inferer::overlap 0.25 --network_def#act=relu --overwrite";
        let flags = read(&words(line)).ok().expect("read");
        assert_eq!((flags.bundle.to_str(), flags.options.run_id.as_deref()), (Some("DIR"), Some("inferring")));
        assert_eq!(flags.options.config_files, ["a.json", "b.json"]);
        let overrides: Vec<(&str, &str)> =
            flags.options.overrides.iter().map(|(id, value)| (id.as_str(), value.as_str())).collect();
        assert_eq!(overrides, [("inferer::overlap", "0.25"), ("network_def#act", "relu")]);
        assert!(flags.options.overwrite && !flags.json);
    }

    #[test]
    fn what_lacks_a_value_is_named() {
        assert_eq!(read(&words("DIR --x")).expect_err("refused").line(), "--x needs a value");
        assert!(read(&[]).expect_err("refused").line().contains("give the folder"));
        assert!(read(&words("a b c")).expect_err("refused").line().contains("a b c"));
    }
}
