//! The search for the dictionary of weights in a file.

use super::tree::Tree;

/// Keys under which training scripts store a state dict, the most reliable first.
const USUAL: [&str; 9] =
    ["state_dict", "model_state_dict", "model", "network", "net", "network_weights", "module", "weights", "params"];

/// The keys that are never the first level of a network.
const SURE: [&str; 3] = ["state_dict", "model_state_dict", "network_weights"];

/// Finds dictionaries whose keys are dotted paths to tensors: the output of `state_dict()`.
fn state_dicts(value: &Tree, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let Tree::Dict(entries) = value else { return };
    if entries.iter().any(|(key, value)| key.contains('.') && matches!(value, Tree::Tensor(_))) {
        found.push(path.clone());
        return;
    }
    let mut keys: Vec<&String> = entries.keys().collect();
    keys.sort_unstable();
    for key in keys {
        path.push(key.clone());
        state_dicts(&entries[key], path, found);
        path.pop();
    }
}

/// The path of keys to the weights, or the error message.
pub(super) fn choose(root: &Tree, key: Option<&str>) -> Result<Vec<String>, String> {
    let Tree::Dict(entries) = root else {
        return Err(match root {
            Tree::Other(Some(name)) => format!("it holds one object, {name}, not a dictionary of tensors"),
            _ => "it does not hold a dictionary of tensors".to_owned(),
        });
    };
    let known = || {
        let mut keys: Vec<&str> = entries.keys().map(String::as_str).collect();
        keys.sort_unstable();
        let more = if keys.len() > 8 { ", ..." } else { "" };
        format!("its keys are {}{more}", keys[..keys.len().min(8)].join(", "))
    };
    if let Some(key) = key {
        // A key may itself contain dots: the longest existing one is used.
        let mut place = Vec::new();
        let (mut node, mut rest) = (root, key);
        while !rest.is_empty() {
            let Tree::Dict(entries) = node else { return Err(format!("there is no {key} in it; {}", known())) };
            let fits =
                |k: &&String| rest == k.as_str() || rest.strip_prefix(k.as_str()).is_some_and(|r| r.starts_with('.'));
            let Some(found) = entries.keys().filter(fits).max_by_key(|k| k.len()) else {
                return Err(format!("there is no {key} in it; {}", known()));
            };
            place.push(found.clone());
            node = &entries[found];
            rest = rest[found.len()..].trim_start_matches('.');
        }
        if matches!(node, Tree::Tensor(_)) {
            return Err(format!("{key} is one tensor, not a dictionary of tensors"));
        }
        return if node.holds_tensors() { Ok(place) } else { Err(format!("there are no tensors under {key}")) };
    }
    if !root.holds_tensors() {
        return Err(format!("there are no tensors in it; {}", known()));
    }
    let mut found = Vec::new();
    state_dicts(root, &mut Vec::new(), &mut found);
    if found.len() > 1 {
        let usual = |name: &str| found.iter().find(|path| path.last().is_some_and(|last| last == name)).cloned();
        let listed: Vec<String> = found.iter().map(|path| path.join(".")).collect();
        let reason = || format!("there are weights under {}; choose one with a key", listed.join(", "));
        return USUAL.iter().find_map(|name| usual(name)).ok_or_else(reason);
    }
    if let Some(only) = found.pop() {
        return Ok(only);
    }
    // If no key has a dot, the file holds a pickled module or a network of one layer, perhaps
    // within a checkpoint.
    let beside = |key: &str| entries.iter().any(|(other, value)| other != key && !value.holds_tensors());
    let within = USUAL.iter().find(|key| {
        entries.get(**key).is_some_and(|value| matches!(value, Tree::Dict(_)) && value.holds_tensors())
            && (SURE.contains(*key) || beside(key) || entries.contains_key("optimizer"))
    });
    Ok(within.map_or_else(Vec::new, |key| vec![(*key).to_owned()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dict<const N: usize>(entries: [(&str, Tree); N]) -> Tree {
        Tree::Dict(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    fn tensor() -> Tree {
        // A tensor without values, protocol 2.
        let storage = b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x00tQ";
        let pickle =
            [&b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n"[..], storage, b"K\x00K\x00\x85K\x01\x85\x89}tR."].concat();
        let (pickled, _) = hearth_pickle::parse(&pickle, &hearth_pickle::Options::weights()).expect("a tensor");
        Tree::of(&pickled).expect("a tensor")
    }

    fn weights() -> Tree {
        dict([("model.0.conv.weight", tensor()), ("model.1.weight", tensor())])
    }

    #[test]
    fn the_state_dict_is_found_wherever_it_is() {
        let optimizer = dict([("state", dict([("0", dict([("exp_avg", tensor())]))])), ("lr", Tree::Float(0.1))]);
        assert_eq!(choose(&weights(), None), Ok(vec![]));
        assert_eq!(
            choose(&dict([("state_dict", weights()), ("epoch", Tree::Int(3))]), None),
            Ok(vec!["state_dict".into()])
        );
        assert_eq!(
            choose(&dict([("model", weights()), ("optimizer", optimizer.clone())]), None),
            Ok(vec!["model".into()])
        );
        let twice = dict([("model", dict([("state_dict", weights())])), ("ema", weights())]);
        assert_eq!(choose(&twice, None), Ok(vec!["model".into(), "state_dict".into()]));
        assert_eq!(choose(&twice, Some("ema")), Ok(vec!["ema".into()]));
        assert_eq!(choose(&twice, Some("model.state_dict")), Ok(vec!["model".into(), "state_dict".into()]));
        assert!(choose(&twice, Some("other")).is_err_and(|reason| reason.contains("ema, model")));
        let unknown = dict([("teacher", weights()), ("student", weights())]);
        assert!(choose(&unknown, None).is_err_and(|reason| reason.contains("student, teacher")));
        assert!(choose(&dict([("epoch", Tree::Int(3))]), None).is_err_and(|r| r.contains("epoch")));
    }

    /// A pickled module is a dictionary per level, whose first level may be named `model`.
    #[test]
    fn a_whole_module_keeps_its_own_names() {
        let module = dict([("model", dict([("0", dict([("weight", tensor())]))]))]);
        assert_eq!(choose(&module, None), Ok(vec![]));
        let saved = dict([("model", module.clone()), ("epoch", Tree::Int(1))]);
        assert_eq!(choose(&saved, None), Ok(vec!["model".into()]));
        let linear = dict([("weight", tensor()), ("bias", tensor())]);
        assert_eq!(choose(&linear, None), Ok(vec![]));
        assert_eq!(choose(&dict([("state_dict", linear)]), None), Ok(vec!["state_dict".into()]));
    }
}
