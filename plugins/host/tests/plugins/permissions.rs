//! Requests that a plugin did not declare are refused.

use hearth_engine::Engine;
use hearth_plugin_host::load;

use crate::toy::Toy;
use crate::{fixture, table};

fn oversteps(what: &str) -> Result<Toy, String> {
    let plugin = load(&fixture("oversteps")).expect("it loads");
    let mut engine = Engine::new("trainer");
    engine.on_attach(Box::new(|_, name, _| Ok(Some(name.into()))));
    engine.add_boxed(plugin.handler(table(&format!("what = '{what}'"))).expect("valid")).expect("a handler");
    let mut toy = Toy::trainer(2);
    engine.run(&mut toy, 2).map(|_| toy).map_err(|error| error.to_string())
}

#[test]
fn requests_that_were_not_declared_are_refused() {
    let changes = ["terminate", "set_metric", "set_learning_rate", "put_tensor", "run"];
    for what in changes {
        let error = oversteps(what).map(|toy| toy.notes).expect_err(what);
        let expected = format!("`{what}` is refused: plugin `oversteps` does not declare that it changes the run");
        assert!(error.contains(&expected) && error.ends_with("adds CHANGES_RUN to its `needs`"), "{error}");
    }
    for what in ["attach", "save_checkpoint"] {
        let error = oversteps(what).map(|toy| toy.notes).expect_err(what);
        let expected =
            format!("`{what}` is refused: plugin `oversteps` does not declare that it reads or writes files");
        assert!(error.contains(&expected) && error.ends_with("adds FILES to its `needs`"), "{error}");
    }
    assert!(oversteps("nothing of the kind").is_ok(), "a number for curves needs nothing");
}
