//! The server with the pocket models, until `treasure serve` is there.
//!
//! ```text
//! cargo run -p treasure-server --example serve -- [PORT] [--keys FILE] [--chat] [--queue N] [--seconds S] [--drain S] [--page web]
//! ```
//!
//! Prints its address on stdout once it listens. `--chat` adds a model whose chat template is plain
//! text, for clients that want to try the route.

use treasure_server::{Chat, Message, ServeOptions, Served};

fn main() -> treasure::Result<()> {
    let mut options = ServeOptions { port: 8080, ..ServeOptions::default() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word.as_str() {
            "--keys" => options.api_key_file = Some(value().into()),
            "--chat" => {
                let mut model = Served::new("pocket-chat=pocket");
                model.chat = Some(Chat::new(|messages| Ok(plain(messages))));
                options.models.push(model);
            }
            "--page" => options.page = Some(value().into()),
            "--queue" => options.max_queue = number("--queue", &value())?,
            "--seconds" => options.max_seconds = number("--seconds", &value())?,
            "--drain" => options.drain_seconds = number("--drain", &value())?,
            port => options.port = number("port", port)?,
        }
    }
    let session = treasure::Session::pocket()?;
    treasure_server::serve_blocking(options, &session, |address| println!("http://{address}/"))
}

fn number<T: std::str::FromStr>(what: &str, text: &str) -> treasure::Result<T> {
    text.parse()
        .map_err(|_| treasure::Error::request(format!("{what}: expected a number, got {text:?}")))
}

/// What was said, one message a line.
fn plain(messages: &[Message]) -> String {
    messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}
