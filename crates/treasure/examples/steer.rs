//! The six lines: a prompt, a reward, a text.

fn main() -> treasure::Result<()> {
    let session = treasure::Session::pocket()?;
    let found = session.prompt("One day, the old dog").reward("sentiment=negative").run()?;
    println!("{}  {:.3}  {}", found.text, found.reward, found.cost);
    Ok(())
}
