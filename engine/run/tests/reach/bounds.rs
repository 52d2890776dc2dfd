//! The bounds that messages name hold: for every number of every part of a recipe, the named bound is
//! accepted or refused as the words say, and the number one step beyond it is refused.

use hearth_data::caches::Cache;
use hearth_data::{SamplerConfig, Transform};
use hearth_handlers::{HandlerSpec, Schedule};
use hearth_nn::inferers::Inferer;
use hearth_nn::losses::Loss;
use hearth_nn::metrics::Metric;
use hearth_nn::networks::NetworkSpec;
use hearth_nn::optim::OptimizerSpec;
use hearth_registry::{Fault, Kind, Node, Registry};
use hearth_train::Post;
use toml::Value;

use crate::small::{example, with};

/// A bound in a message.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound {
    at: f64,
    /// Whether it is the lowest number, or the largest.
    lower: bool,
    /// Whether the bound itself is accepted.
    included: bool,
}

/// The bounds that a message names.
fn bounds(message: &str) -> Vec<Bound> {
    let words: Vec<&str> = message.split_whitespace().collect();
    let number = |word: &&str| word.trim_matches(|c: char| !c.is_ascii_digit() && !"-.".contains(c)).parse().ok();
    let numbers: Vec<Option<f64>> = words.iter().map(|word| number(&word.trim_end_matches('.'))).collect();
    let bound = |at, lower, included| Bound { at, lower, included };
    let mut found = Vec::new();
    for (place, at) in numbers.iter().enumerate().filter_map(|(place, at)| Some((place, (*at)?))) {
        let before = |back: usize| place.checked_sub(back).map_or("", |place| words[place]);
        let after = |on: usize| words.get(place + on).copied().unwrap_or("");
        match [before(3), before(2), before(1)] {
            [_, "at", "least"] | ["is", "less", "than"] | [_, "not", "below"] => found.push(bound(at, true, true)),
            [_, "at", "most"] | ["is", "more", "than"] => found.push(bound(at, false, true)),
            [_, "more", "than"] | ["be", "larger", "than"] | [_, _, "above"] => found.push(bound(at, true, false)),
            [_, "less", "than"] | [_, _, "below"] => found.push(bound(at, false, false)),
            _ => {}
        }
        if after(1) == "or" && after(2).starts_with("more") {
            found.push(bound(at, true, true));
        }
        let word = words[place];
        // A range at the beginning is the one that is refused: "`alpha`: 0 to 1.5 must be within 0 to 1".
        let refused = before(1).is_empty() || before(1).ends_with(':');
        let range = (after(1) == "to" && !refused) || (before(1) == "between" && after(1) == "and");
        if let (true, Some(Some(end))) = (range, numbers.get(place + 2)) {
            found.extend([bound(at, true, true), bound(*end, false, true)]);
        }
        // Other brackets have the values that are refused.
        let interval = before(1) == "in" && word.starts_with('[') && word.ends_with(',');
        if let (true, Some(Some(end))) = (interval, numbers.get(place + 1)) {
            found.extend([bound(at, true, true), bound(*end, false, after(1).contains(']'))]);
        }
    }
    found
}

/// The fault of a number, if it is refused because of this number.
fn refusal<T: Kind + ?Sized>(
    table: &toml::Table,
    key: &str,
    number: &Value,
    check: &dyn Fn(&T) -> Result<(), Fault>,
) -> Option<Fault> {
    let node = Node::from(Value::Table(with(table.clone(), key, number.clone())));
    let built = Registry::<T>::new().build(&node);
    let fault = built.and_then(|built| check(&built)).err()?;
    (fault.path.split('.').next() == Some(key)).then_some(fault)
}

/// What is wrong with the bounds that the refusals of a number name.
fn wrong<T: Kind + ?Sized>(
    table: &toml::Table,
    key: &str,
    whole: bool,
    check: &dyn Fn(&T) -> Result<(), Fault>,
) -> Vec<String> {
    let value = |number: f64| if whole { Value::Integer(number as i64) } else { Value::Float(number) };
    let numbers =
        if whole { vec![-2.0, -1.0, 0.0, 1.0] } else { vec![-2.5, -1.0, 0.0, 0.5, 1.0, 1.5, 1e30, f64::INFINITY] };
    let messages = numbers.into_iter().filter_map(|number| refusal(table, key, &value(number), check));
    let mut faults = Vec::new();
    for message in messages.map(|fault| fault.message) {
        for bound in bounds(&message) {
            let step = if whole { 1.0 } else { 1e-6 * bound.at.abs().max(1.0) };
            let outside = if bound.lower { -step } else { step };
            // Beyond the bound, or the bound itself; and the first number that should be accepted.
            let (refused, taken) =
                if bound.included { (bound.at + outside, bound.at) } else { (bound.at, bound.at - outside) };
            // A number may also lack another option.
            let taken_not =
                refusal(table, key, &value(taken), check).filter(|fault| !bounds(&fault.message).is_empty());
            if let Some(fault) = taken_not {
                faults.push(format!("{key}: {message:?}, but {taken}: {:?}", fault.message));
            }
            if refusal(table, key, &value(refused), check).is_none() {
                faults.push(format!("{key}: {message:?}, but {refused} is accepted"));
            }
        }
    }
    faults.sort();
    faults.dedup();
    faults
}

/// Tries the numbers of each entry of a kind.
fn each<T: Kind + ?Sized>(check: impl Fn(&T) -> Result<(), Fault>) -> (usize, Vec<String>) {
    let (mut tried, mut faults) = (0, Vec::new());
    for entry in Registry::<T>::new().entries() {
        let mut table = example(entry);
        if T::TAG != "name" {
            table.remove("name");
            table.insert(T::TAG.into(), entry.name.into());
        }
        for parameter in entry.describe().parameters {
            let whole = parameter.kind.starts_with("whole number");
            if whole || parameter.kind.starts_with("number") {
                tried += 1;
                let found = wrong::<T>(&table, &parameter.name, whole, &check);
                faults.extend(found.into_iter().map(|fault| format!("{} {}.{fault}", T::WORD, entry.name)));
            }
        }
    }
    (tried, faults)
}

#[test]
fn messages_name_the_bounds_that_hold() {
    fn sound<T: ?Sized>(_: &T) -> Result<(), Fault> {
        Ok(())
    }
    fn of_two_classes(metric: &(dyn Metric + 'static)) -> Result<(), Fault> {
        Ok(metric.check_for(2)?)
    }
    let parts = [
        each::<dyn Loss>(sound),
        each::<dyn Metric>(of_two_classes),
        each::<dyn OptimizerSpec>(sound),
        each::<dyn Inferer>(sound),
        each::<dyn Schedule>(sound),
        each::<HandlerSpec>(sound),
        each::<dyn Cache>(sound),
        each::<dyn SamplerConfig>(sound),
        each::<dyn Transform>(sound),
        each::<NetworkSpec>(sound),
        each::<Post>(sound),
    ];
    let tried: usize = parts.iter().map(|(tried, _)| tried).sum();
    let faults: Vec<String> = parts.into_iter().flat_map(|(_, faults)| faults).collect();
    assert!(tried > 400, "{tried} numbers are tried");
    assert!(faults.is_empty(), "{} of {tried} numbers:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn bounds_are_read_from_messages() {
    let read = |message: &str| {
        let of = |bound: Bound| (bound.at, bound.lower, bound.included);
        bounds(message).into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(read("`patience` is 0; give 1 or more"), [(1.0, true, true)]);
    assert_eq!(read("lr is -1: expected at least 0 and less than 1."), [(0.0, true, true), (1.0, false, false)]);
    assert_eq!(read("give a number above 0"), [(0.0, true, false)]);
    assert_eq!(read("expected 2 to 65536"), [(2.0, true, true), (65536.0, false, true)]);
    assert_eq!(read("expected shares in [0, 1)"), [(0.0, true, true), (1.0, false, false)]);
    assert_eq!(read("give more than 0 and at most 1"), [(0.0, true, false), (1.0, false, true)]);
    assert_eq!(read("1e30 is more than 1000"), [(1000.0, false, true)]);
    assert_eq!(read("0 is not between 1 and 9"), [(1.0, true, true), (9.0, false, true)]);
    assert_eq!(read("`alpha`: 0 to 1.5 must be within 0 to 1"), [(0.0, true, true), (1.0, false, true)]);
    assert_eq!(read("`sigma`: -1 to 1 must be not below 0"), [(0.0, true, true)]);
    assert_eq!(read("win_size is [0, 0]: expected 1 to 9 per axis"), [(1.0, true, true), (9.0, false, true)]);
    assert_eq!(read("expected 0, 1 or 2"), []);
}
