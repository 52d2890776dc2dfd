//! The levers: each checks for one cause of lost time.

use crate::advice::Finding;
use crate::advice::facts::Facts;
use hearth_recipe::recipe::{Node, Recipe};

fn percent(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of * 100.0 } else { 0.0 }
}

/// Formats an interval: `every epoch`, `every 5 epochs`.
fn every(epochs: u64) -> String {
    if epochs == 1 { "every epoch".to_owned() } else { format!("every {epochs} epochs") }
}

/// The number of threads that prepare batches at the same time.
fn preparing(recipe: &Recipe, facts: &Facts) -> f64 {
    recipe.data.workers.clamp(1, facts.cores.max(1)) as f64
}

/// Suggests a cache, because steps before the first random one return the same in every epoch.
pub fn cache(recipe: &Recipe, facts: &Facts) -> Option<Finding> {
    let fixed = facts.fixed();
    if fixed <= 0.0 {
        return None;
    }
    // If the network computes on the same cores, work of other threads takes its time as well.
    let threads = if facts.on_processor { facts.cores.max(1) as f64 } else { preparing(recipe, facts) };
    let beside = if facts.on_processor { fixed / threads } else { 0.0 };
    let seconds = (fixed / preparing(recipe, facts)).min(facts.wait).max(beside).min(facts.training);
    let mut longest: Vec<_> = facts.steps.iter().filter(|step| step.fixed && step.seconds > 0.0).collect();
    longest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let names: Vec<String> =
        longest.iter().take(3).map(|step| format!("{} {:.2} s", step.name, step.seconds)).collect();
    let evidence = format!(
        "{fixed:.2} s of each epoch go into {} steps before the first random one ({}), which give the same every time; \
         the training waits {:.2} s ({:.0} %) for batches",
        longest.len(),
        names.join(", "),
        facts.wait,
        percent(facts.wait, facts.training)
    );
    let line = "cache = { rate = 1.0, workers = 8 }        # in [data]".to_owned();
    let sets = vec!["data.cache={ kind = \"cache\", rate = 1.0, workers = 8 }".to_owned()];
    Some(Finding { lever: "keep what is deterministic in memory", evidence, line, sets, seconds, same_course: true })
}

/// Suggests preparing batches while the network computes.
pub fn workers(recipe: &Recipe, facts: &Facts) -> Option<Finding> {
    let random: f64 = facts.steps.iter().filter(|step| !step.fixed).map(|step| step.seconds).sum();
    // Time that a cache would save is not counted again.
    let wait = facts.wait.min(random);
    let before = recipe.data.workers;
    if before > 0 && preparing(recipe, facts) >= facts.cores as f64 {
        return None;
    }
    let after = if before == 0 { 2.min(facts.cores.max(1)) } else { facts.cores.min(before * 2) };
    // On a CPU the network uses the other cores: only time in a single thread is saved.
    let won = if facts.on_processor { 1.0 - 1.0 / facts.cores.max(1) as f64 } else { 1.0 };
    let evidence = format!(
        "the training waits {:.2} s of each epoch ({:.0} %) for batches that {before} threads prepare in advance; their \
         random steps take {random:.2} s",
        facts.wait,
        percent(facts.wait, facts.training),
    );
    let line = format!("workers = {after}        # in [data]");
    let sets = vec![format!("data.workers={after}")];
    Some(Finding { lever: "prepare batches in threads", evidence, line, sets, seconds: wait * won, same_course: true })
}

/// Suggests indices for a crop by label that searches for its voxels each time.
pub fn indices(recipe: &Recipe, facts: &Facts) -> Option<Finding> {
    const CROP: &str = "RandCropByPosNegLabel";
    let place = recipe.transforms.iter().position(|step| step.text("name") == Some(CROP))?;
    let crop = &recipe.transforms[place];
    if crop.get("fg_indices_key").is_some() {
        return None;
    }
    let time = facts.steps.iter().find(|step| step.name == CROP)?;
    let label = crop.text("label_key")?;
    let image = crop.text("image_key");
    // With indices, only the cutting remains, and copying the crops takes little time compared with
    // a search.
    let seconds = (time.seconds * 0.8 / preparing(recipe, facts)).min(facts.wait);
    let image_key = image.map(|key| format!(", image_key = \"{key}\"")).unwrap_or_default();
    let line = format!(
        "{{ name = \"FgBgToIndices\", keys = [\"{label}\"]{image_key}, fg_postfix = \"_fg\", bg_postfix = \"_bg\", only = \
         \"train\" }}"
    );
    let mut tables: Vec<String> = recipe.transforms.iter().map(|step| step.to_toml().to_string()).collect();
    let own = tables[place].trim_end().trim_end_matches('}').trim_end().to_owned();
    tables[place] = format!("{own}, fg_indices_key = \"{label}_fg\", bg_indices_key = \"{label}_bg\" }}");
    tables.insert(place, line.clone());
    let sets = vec![format!("transforms=[{}]", tables.join(", "))];
    let evidence = format!(
        "{CROP} takes {:.2} s of each epoch, {:.1} ms each of {:.0} times: it looks for the voxels of both kinds every time",
        time.seconds,
        time.seconds * 1e3 / time.calls.max(1.0),
        time.calls
    );
    let line = format!("{line}, before {CROP} with fg_indices_key = \"{label}_fg\", bg_indices_key = \"{label}_bg\"");
    Some(Finding { lever: "look for the voxels of crops once", evidence, line, sets, seconds, same_course: true })
}

/// Suggests fewer validations if they take a large part of the time.
pub fn interval(_: &Recipe, facts: &Facts) -> Option<Finding> {
    /// The share of the time that validations may take.
    const PART: f64 = 0.1;
    let epoch = facts.cost() - facts.validation / facts.val_interval.max(1) as f64;
    let wanted = (facts.validation / (PART * epoch)).ceil();
    if !(wanted.is_finite() && wanted > facts.val_interval as f64) {
        return None;
    }
    // With even fewer validations, the best epoch is missed.
    let after = (wanted as u64).min(facts.val_interval.saturating_mul(10));
    let seconds = facts.validation / facts.val_interval.max(1) as f64 - facts.validation / after as f64;
    let evidence = format!(
        "a validation takes {:.2} s, as long as {:.1} epochs of training, and comes {}: {:.0} % of the time",
        facts.validation,
        facts.validation / epoch,
        every(facts.val_interval),
        percent(facts.validation / facts.val_interval.max(1) as f64, facts.cost())
    );
    let line = format!("val_interval = {after}        # in [training]");
    Some(Finding {
        lever: "validate less often",
        evidence,
        line,
        sets: vec![format!("training.val_interval={after}")],
        seconds,
        // The steps are the same, but the best checkpoint is chosen among fewer.
        same_course: false,
    })
}

/// Suggests less overlap of validation windows.
pub fn overlap(recipe: &Recipe, facts: &Facts) -> Option<Finding> {
    const ENOUGH: f64 = 0.25;
    let inferer = recipe.inferer.node();
    let overlaps = |node: &Node| node.to_toml().as_float();
    let before = inferer.get("overlap").and_then(overlaps).filter(|overlap| *overlap > ENOUGH && *overlap < 1.0)?;
    let axes = inferer.get("roi_size").map_or(3, |size| size.items().len().max(1)) as i32;
    // The number of windows per axis is proportional to one over the step between them.
    let kept = ((1.0 - before) / (1.0 - ENOUGH)).powi(axes);
    let seconds = facts.windows * (1.0 - kept) / facts.val_interval.max(1) as f64;
    let evidence = format!(
        "{:.2} s of each validation go into windows that overlap by {before}; with {ENOUGH} there are {:.0} % of them",
        facts.windows,
        kept * 100.0
    );
    let line = format!("overlap = {ENOUGH}        # in [inferer]; the predictions change a little");
    Some(Finding {
        lever: "let windows overlap less",
        evidence,
        line,
        sets: vec![format!("inferer.overlap={ENOUGH}")],
        seconds,
        same_course: false,
    })
}

/// Suggests fewer checkpoints.
pub fn handlers(recipe: &Recipe, facts: &Facts) -> Option<Finding> {
    let (name, taken) = facts.handlers.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let place = recipe.plugins.iter().position(|plugin| plugin.name == "checkpoint")?;
    if !name.contains("checkpoint") {
        return None;
    }
    let options = &recipe.plugins[place].options;
    let before = options.get("every_epochs").and_then(toml::Value::as_integer).unwrap_or(1).max(1);
    let after = before * 10;
    let evidence = format!(
        "checkpoints take {taken:.2} s of each epoch ({:.0} %): one {}",
        percent(*taken, facts.cost()),
        every(before as u64)
    );
    let line = format!("every_epochs = {after}        # in the options of the plugin checkpoint");
    let mut plugins = recipe.plugins.clone();
    plugins[place].options.insert("every_epochs".to_owned(), after.into());
    // Values that a recipe fills in depend on its other keys, which may change after this one.
    let filled_in = toml::Value::Integer(recipe.training.val_interval.try_into().unwrap_or(i64::MAX));
    for plugin in plugins.iter_mut().filter(|plugin| plugin.name == "validation") {
        if plugin.options.get("interval") == Some(&filled_in) {
            plugin.options.remove("interval");
        }
    }
    let sets = vec![format!("plugins={}", toml::Value::try_from(plugins).ok()?)];
    Some(Finding {
        lever: "write checkpoints less often",
        evidence,
        line,
        sets,
        seconds: taken * 0.9,
        same_course: true,
    })
}
