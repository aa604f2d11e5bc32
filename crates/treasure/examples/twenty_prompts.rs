//! Twenty prompts at once: they share forward passes, and each gets the text it would get alone.

fn main() -> treasure::Result<()> {
    let session = treasure::Session::pocket()?;
    let prompts: Vec<String> =
        ["dog", "cat", "bird", "fish", "king", "queen", "boy", "girl", "tree", "boat"]
            .iter()
            .flat_map(|noun| [format!("The old {noun}"), format!("The happy {noun}")])
            .collect();
    let prompts = prompts.iter().map(String::as_str);
    let ask = session.prompt("").reward("sentiment=positive").length(8);
    for found in ask.prompts(prompts)? {
        println!("{:>6.3}  {}", found.reward, found.text);
    }
    Ok(())
}
