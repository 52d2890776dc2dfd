//! A plugin that can be loaded, but that no engine accepts: `check` reports it.

use hearth_plugin::{Context, Event, Handler, HandlerError, NoOptions, When, export_plugin};
use hearth_plugin_host::check_linked;

struct Counts;

impl Handler for Counts {
    fn name(&self) -> &str {
        "counts"
    }

    fn subscriptions(&self) -> Vec<When> {
        // The event has no counter for the filter to compare with.
        vec![Event::ForwardCompleted.every(2)]
    }

    fn handle(&mut self, _: Event, _: &mut Context<'_>) -> Result<(), HandlerError> {
        Ok(())
    }
}

export_plugin!("counts", NoOptions, |_| Counts);

#[test]
fn what_an_engine_refuses_is_refused_by_check() {
    let report = check_linked(&PLUGIN);
    assert!(!report.ok && report.info.is_some(), "{report}");
    let problem = report.problem.expect("a reason");
    assert!(problem.starts_with("plugin `counts` can be loaded, but no engine accepts its handler: "), "{problem}");
    assert!(problem.contains("forward_completed") && problem.contains("counter"), "{problem}");
}
