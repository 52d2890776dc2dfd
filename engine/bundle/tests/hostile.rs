//! Expressions that would fill the memory, overflow the stack or never end without limits.

use std::path::PathBuf;

use hearth_bundle::{Config, Fault, Resolver, Value};
use serde_json::{Map, json};

fn value(expression: &str) -> Result<Value, Fault> {
    let config = Config::parse("c.json", &json!({"x": expression, "text": "a".repeat(1000)}).to_string())?;
    Resolver::new(config, PathBuf::from("."))?.get("x")
}

#[test]
fn values_that_expressions_make_are_counted() {
    for expression in [
        "$[0] * 1000000000",
        "$'ab' * 9223372036854775807",
        "$list(range(1000000000))",
        // Each step makes a thousand of one.
        "$@text.replace('a', @text).replace('a', @text).replace('a', @text)",
        "$@text.join([@text] * 100000)",
        // A thousand values, and a million references to the same value.
        "$[list(range(1000)) for i in range(1000000)]",
        // A lambda keeps the names around it.
        "$[lambda: i for i in range(1000000)]",
        "$[[i + j for i in range(10000)] for j in range(10000)]",
    ] {
        let fault = value(expression).err().unwrap_or_else(|| panic!("{expression} was evaluated"));
        assert!(fault.to_string().contains("makes more than 4000000 values"), "{expression}: {fault}");
    }
}

#[test]
fn lambdas_that_call_themselves_end() {
    for expression in [
        "$(lambda f: f(f))(lambda f: f(f))",
        "$(lambda f: list(map(f, [f])))(lambda f: list(map(f, [f])))",
        "$sorted([1, 2], key=(lambda f: lambda x: f(f)(x))(lambda f: lambda x: f(f)(x)))",
    ] {
        let fault = value(expression).err().unwrap_or_else(|| panic!("{expression} was evaluated"));
        assert!(fault.to_string().contains("does a lambda call itself?"), "{expression}: {fault}");
    }
    // Real configs nest a few levels deep; the number of items in sequence is not limited.
    let made = value("$sum(map(lambda i: (lambda j: j + 1)(i), range(5000)))").expect("lambdas");
    assert_eq!(made.to_json(), Some(json!(12_502_500)));
}

#[test]
fn a_key_without_a_letter_names_nothing() {
    for config in [json!({"": {"a": "%x"}, "x": "$1 + 1"}), json!({"": [{"": 1}], "x": "$1 + 1"})] {
        let config = Config::parse("c.json", &config.to_string()).expect("JSON");
        let x = Resolver::new(config, PathBuf::from(".")).and_then(|items| items.get("x")).expect("a number");
        assert_eq!(x.to_json(), Some(json!(2)));
    }
}

/// A tree without a depth limit would overflow the stack of the code that evaluates or drops it.
#[test]
fn expressions_of_any_length_and_depth_are_values_or_errors() {
    let chain = |sign: &str, count: usize| format!("$1{}", format!("{sign}1").repeat(count - 1));
    for (expression, part) in [
        (chain(" + ", 20_000), "more than 1000 operators"),
        (chain(" or ", 20_000), "more than 1000 operators"),
        (chain(" and ", 20_000), "more than 1000 operators"),
        (format!("$a{}", ".a".repeat(20_000)), "more than 1000 operators"),
        (format!("$a{}", "()".repeat(20_000)), "more than 1000 operators"),
        (format!("$a{}", "[0]".repeat(20_000)), "more than 1000 operators"),
        (chain(" + ", 1_000), "levels deep"),
        (format!("${}1", "(".repeat(20_000)), "levels deep"),
        (format!("${}1", "not ".repeat(20_000)), "levels deep"),
        (format!("${}1", "-".repeat(20_000)), "levels deep"),
        (format!("$[1 for {}x", "(".repeat(20_000)), "levels deep"),
        (format!("${}0", "lambda: ".repeat(20_000)), "levels deep"),
    ] {
        let fault = value(&expression).err().unwrap_or_else(|| panic!("{}... was evaluated", &expression[..30]));
        assert!(fault.to_string().contains(part), "no {part:?} in {}", fault.what);
        assert!(fault.to_string().len() < 500, "the message holds the whole text");
    }
    let sum = value(&chain(" + ", 100)).expect("a sum");
    assert_eq!(sum.to_json(), Some(json!(100)));
}

/// Items that each hold the one before: the whole is refused in whatever order they are resolved.
#[test]
fn values_within_each_other_are_limited_in_any_order() {
    let mut table = Map::new();
    table.insert("a0".to_owned(), json!(0));
    for level in 1..5000 {
        table.insert(format!("a{level}"), json!(format!("$[@a{}]", level - 1)));
    }
    let text = serde_json::Value::Object(table).to_string();
    let resolver =
        || Resolver::new(Config::parse("c.json", &text).expect("JSON"), PathBuf::from(".")).expect("a config");
    let upwards = resolver();
    let failed = (0..5000).find(|level| upwards.get(&format!("a{level}")).is_err()).expect("a limit");
    assert!((150..300).contains(&failed), "level {failed} failed");
    let fault = resolver().get("a4999").expect_err("the same limit");
    assert!(fault.to_string().contains("levels deep"), "{fault}");
}

/// Each macro copies the one before: twice as many values, or one more level.
#[test]
fn macros_are_limited_in_values_and_depth() {
    for (items, part) in [(2, "more than 1000000 values"), (1, "200 levels deep")] {
        let mut table = Map::new();
        table.insert("a0".to_owned(), json!([0]));
        for level in 1..400 {
            table.insert(format!("a{level}"), json!(vec![format!("%a{}", level - 1); items]));
        }
        let config = Config::parse("c.json", &serde_json::Value::Object(table).to_string()).expect("JSON");
        let fault = Resolver::new(config, PathBuf::from(".")).map(drop).expect_err("a limit");
        assert!(fault.to_string().contains(part), "no {part:?} in {fault}");
    }
    let few = json!({"a": [1, 2], "b": ["%a", "%a"], "c": "%b"}).to_string();
    let config = Config::parse("c.json", &few).expect("JSON");
    let made = Resolver::new(config, PathBuf::from(".")).and_then(|resolver| resolver.get("c")).expect("two macros");
    assert_eq!(made.to_json(), Some(json!([[1, 2], [1, 2]])));
}

/// The sort of the standard library may panic for an inconsistent order.
#[test]
fn what_cannot_be_compared_is_an_error_and_equals_stay_in_order() {
    let mixed: Vec<String> =
        (0..60).map(|i| if i % 7 == 3 { format!("'{i}'") } else { format!("{}", i * 37 % 60) }).collect();
    assert!(value(&format!("$sorted([{}])", mixed.join(", "))).is_err());
    let nan: Vec<String> =
        (0..60).map(|i| if i % 7 == 3 { "float('nan')".to_owned() } else { format!("{}", i * 37 % 60) }).collect();
    let _ = value(&format!("$sorted([{}])", nan.join(", ")));
    let stable = value("$sorted([[1, 'b'], [0, 'c'], [1, 'a']], key=lambda pair: pair[0])").expect("pairs");
    assert_eq!(stable.to_json(), Some(json!([[0, "c"], [1, "b"], [1, "a"]])));
    let reversed =
        value("$sorted([[1, 'b'], [0, 'c'], [1, 'a']], key=lambda pair: pair[0], reverse=True)").expect("pairs");
    assert_eq!(reversed.to_json(), Some(json!([[1, "b"], [1, "a"], [0, "c"]])));
}
