//! Driving a search step by step: look at it, and leave when you have seen enough.

use treasure::core::Progress;

fn main() -> treasure::Result<()> {
    let session = treasure::Session::pocket()?;
    let found =
        session.prompt("The horse").reward("sentiment=positive").length(16).drive(|run| {
            while run.step()? == Progress::More {
                let best = run.best().map_or(f64::NEG_INFINITY, |best| best.reward);
                println!(
                    "step {}: best {best:.3}, {} model calls",
                    run.steps_done(),
                    run.cost().nfe
                );
            }
            Ok(())
        })?;
    println!("{}", found.text);
    Ok(())
}
