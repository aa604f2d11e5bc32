//! The six lines: a prompt, a reward, a text.

fn main() -> treasure::Result<()> {
    let session = treasure::Session::pocket()?;
    let found = session.prompt("The old dog").reward("sentiment=negative").seed(0).run()?;
    println!("{}  {:.3}  {}", found.text, found.reward, found.cost);
    Ok(())
}
