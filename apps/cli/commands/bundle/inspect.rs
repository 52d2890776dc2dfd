//! `hearth bundle inspect` and `hearth bundle check`

use hearth_models::bundle::{Bundle, ConfigNeeds, RunOptions, inference, needs};
use serde_json::{Value, json};

use super::InspectArgs;
use crate::error::{Failure, Outcome};
use crate::{note, out};

/// Prints what a bundle contains and requires.
pub fn run(args: &InspectArgs) -> Outcome {
    let opened = hearth_models::bundle::open(&args.bundle)?;
    let needs = needs(&opened.bundle, &options(args))?;
    if args.json {
        out!("{}", serde_json::to_string_pretty(&facts(&opened.bundle, &needs))?);
        return Ok(());
    }
    describe(&opened.bundle);
    needs.iter().for_each(describe_config);
    Ok(())
}

/// Fails if `hearth bundle run` would: the chosen config, or the inference config, cannot run because
/// something is missing.
pub fn check(args: &InspectArgs) -> Outcome {
    let opened = hearth_models::bundle::open(&args.bundle)?;
    let mut options = options(args);
    if options.config_files.is_empty() {
        // The config that `run` would use.
        options.config_files.push(inference(&opened.bundle)?.display().to_string());
    }
    let all = needs(&opened.bundle, &options)?;
    if args.json {
        out!("{}", serde_json::to_string_pretty(&facts(&opened.bundle, &all))?);
    }
    let mut missing = 0;
    for config in &all {
        missing += config.refusals().count();
        if args.json {
            continue;
        }
        match config.is_complete() {
            true => out!("{}: complete", config.name),
            false => config.refusals().for_each(|fault| note!("{}: {fault}", fault.kind.word())),
        }
    }
    match missing {
        0 => Ok(()),
        1 => Err(Failure::new("the bundle cannot run: one thing is missing")),
        several => Err(Failure::new(format!("the bundle cannot run: {several} things are missing"))),
    }
}

fn options(args: &InspectArgs) -> RunOptions {
    RunOptions { config_files: args.config_files.clone(), run_id: args.run_id.clone(), ..RunOptions::default() }
}

fn describe(bundle: &Bundle) {
    let metadata = bundle.metadata().cloned().unwrap_or_default();
    let name = metadata.name.clone().unwrap_or_else(|| bundle.root().display().to_string());
    out!("{name} {}", metadata.version.clone().unwrap_or_default());
    for (word, text) in [
        ("task", &metadata.task),
        ("description", &metadata.description),
        ("authors", &metadata.authors),
        ("made for", &metadata.monai_version.as_ref().map(|version| format!("MONAI {version}"))),
        ("intended use", &metadata.intended_use),
    ] {
        if let Some(text) = text {
            out!("  {word}: {text}");
        }
    }
    match bundle.licence() {
        Some((path, text)) => {
            let first: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
            out!("  licence: {} ({})", first.join(", "), path.strip_prefix(bundle.root()).unwrap_or(&path).display());
        }
        None => out!("  licence: no file states one"),
    }
    for (word, ports) in [("input", &metadata.inputs), ("output", &metadata.outputs)] {
        for port in ports {
            let channels = port.num_channels.map(|count| format!("{count} channels")).unwrap_or_default();
            let parts = [&port.modality, &port.format, &port.dtype].into_iter().flatten().cloned();
            let shape = Some(port.spatial_shape.join(" x ")).filter(|shape| !shape.is_empty());
            let parts: Vec<String> = parts.chain([channels]).chain(shape).filter(|part| !part.is_empty()).collect();
            out!("  {word} {}: {}", port.name, parts.join(", "));
        }
    }
    let labels: Vec<String> = metadata.labels().iter().map(|(number, name)| format!("{number} {name}")).collect();
    if !labels.is_empty() {
        out!("  labels: {}", labels.join(", "));
    }
    for (path, address) in bundle.large_files() {
        if !bundle.root().join(&path).is_file() {
            out!("  download it yourself: {path} from {address}");
        }
    }
}

fn describe_config(config: &ConfigNeeds) {
    let what = match (config.is_supported(), config.training.is_some(), config.is_complete()) {
        (false, _, _) => "some parts are not supported",
        (true, true, _) => "supported; hearth bundle convert writes a recipe",
        (true, false, true) => "runs",
        (true, false, false) => "runs once its missing files are added",
    };
    out!("config {} ({}): {what}", config.name, config.run_id.as_deref().unwrap_or("no run id"));
    let mut kinds: Vec<&str> = Vec::new();
    config.parts.iter().for_each(|part| {
        if !kinds.contains(&part.kind) {
            kinds.push(part.kind);
        }
    });
    for kind in kinds {
        let parts = config.parts.iter().filter(|part| part.kind == kind);
        let mut names: Vec<String> = Vec::new();
        for part in parts {
            let short = part.target.rsplit('.').next().unwrap_or(&part.target);
            let name = if part.here { short.to_owned() } else { format!("{} (not supported)", part.target) };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        out!("  {kind}: {}", names.join(", "));
    }
    for fault in &config.missing {
        out!("  missing {}: {fault}", fault.kind.word());
    }
}

fn facts(bundle: &Bundle, needs: &[ConfigNeeds]) -> Value {
    let metadata = bundle.metadata().cloned().unwrap_or_default();
    let configs = needs.iter().map(|config| {
        let parts = config.parts.iter().map(|part| {
            json!({ "kind": part.kind, "target": part.target, "id": part.id, "here": part.here })
        });
        let missing = config.missing.iter().map(|fault| {
            json!({ "kind": fault.kind.word(), "file": fault.file, "id": fault.id, "text": fault.text, "what": fault.what })
        });
        json!({
            "name": config.name, "file": config.path.display().to_string(), "run_id": config.run_id,
            "trains": config.training.is_some(), "supported": config.is_supported(), "complete": config.is_complete(),
            "parts": parts.collect::<Vec<_>>(), "missing": missing.collect::<Vec<_>>(),
        })
    });
    let labels: serde_json::Map<String, Value> =
        metadata.labels().into_iter().map(|(number, name)| (number.to_string(), name.into())).collect();
    let absent = |(path, address): (String, String)| {
        (!bundle.root().join(&path).is_file()).then(|| json!({ "path": path, "url": address }))
    };
    json!({
        "name": metadata.name, "version": metadata.version, "task": metadata.task, "description": metadata.description,
        "authors": metadata.authors, "monai_version": metadata.monai_version, "intended_use": metadata.intended_use,
        "packages": metadata.packages, "labels": labels,
        "licence": bundle.licence().map(|(path, _)| path.display().to_string()),
        "to_download": bundle.large_files().into_iter().filter_map(absent).collect::<Vec<_>>(),
        "configs": configs.collect::<Vec<_>>(),
    })
}
