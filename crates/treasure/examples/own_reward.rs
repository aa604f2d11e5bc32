//! A reward as a closure: a number per text, higher is better.

fn main() -> treasure::Result<()> {
    let session = treasure::Session::pocket()?;
    let count = |texts: &[&str]| -> Vec<f64> {
        texts.iter().map(|text| text.matches("happy").count() as f64).collect()
    };
    let found = session.prompt("One day").reward_fn("happiness", count).length(24).run()?;
    println!("{}  {}", found.text, found.reward);
    Ok(())
}
