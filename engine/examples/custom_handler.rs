//! A custom handler, as a struct and as a closure.
//! `cargo run --release -p hearth --example custom_handler`

mod toy;

use hearth::prelude::*;

/// Ends the run when the loss is small enough.
struct GoodEnough {
    loss: f64,
}

impl Handler for GoodEnough {
    fn name(&self) -> &str {
        "good_enough"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::IterationCompleted.every(5)]
    }

    fn handle(&mut self, _event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        if cx.host.output("loss")? < self.loss {
            cx.host.terminate("good enough");
        }
        Ok(())
    }
}

/// Runs the example in the current folder.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut trainer = toy::trainer()?;
    trainer.engine_mut().add(GoodEnough { loss: 0.4 })?;
    trainer.engine_mut().on(Event::EpochCompleted, |cx| {
        println!("epoch {}: loss {:.4}", cx.state.epoch, cx.host.output("loss")?);
        Ok(())
    })?;
    println!("{:?}", trainer.run()?);
    Ok(())
}
