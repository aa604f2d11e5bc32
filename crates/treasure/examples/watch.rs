//! Watching a text form, and stopping it early.

use std::ops::ControlFlow;

fn main() -> treasure::Result<()> {
    let session = treasure::Session::pocket()?;
    let found = session.prompt("The lake").reward("cola").length(16).watch(|frame| {
        println!("{:>2} masks left  {}", frame.masks_left, frame.text);
        match frame.reward {
            Some(reward) if reward > -0.01 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    })?;
    println!("{}  {:.3}", found.text, found.reward);
    Ok(())
}
